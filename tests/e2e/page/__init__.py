"""The tests of the page share one browser and its services (a package-scoped fixture needs a package)."""
