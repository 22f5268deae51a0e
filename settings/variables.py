"""The names of environment variables that are no settings; must import nothing of this package."""

from __future__ import annotations

ENV_PREFIX = "ECNTWIN_"
CONFIG_VARIABLE = f"{ENV_PREFIX}CONFIG"  # names the settings file itself
TOKEN_VARIABLE = f"{ENV_PREFIX}TOKEN"  # what commands that call a service send
URL_VARIABLE = f"{ENV_PREFIX}URL"  # the service that they call
CA_VARIABLE = f"{ENV_PREFIX}CA"  # who vouches for its certificate
CLIENT_CERTIFICATE_VARIABLE = f"{ENV_PREFIX}CLIENT_CERTIFICATE"  # what is shown to one that asks for it
NOT_SETTINGS = frozenset(
    {CONFIG_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE, CA_VARIABLE, CLIENT_CERTIFICATE_VARIABLE}
)
