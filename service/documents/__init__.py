"""The service's JSON documents, one module a subject: domain objects in, pydantic models out."""
