"""What every entry of the inventory is made of: mappings, secrets by reference, addresses, and layers."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from settings.errors import SettingsError
from settings.validation import HiddenValueError, Section
from switches.device import Secret


class Part(Section):
    """A mapping of the file; null is the same as absent."""

    model_config = ConfigDict(hide_input_in_errors=True)


SECRETS = ("username", "password", "token")
SECRETS_RULE = (
    "an inventory names the one place of a secret, and never holds it",
    "write {env: NAME} of an environment variable, or {file: PATH} of a mounted file",
)


class SecretKeys(Part):
    """A secret: the name of an environment variable, or a file whose first line it is."""

    env: str | None = Field(default=None, min_length=1)
    file: Path | None = None

    @model_validator(mode="after")
    def _is_in_one_place(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise HiddenValueError(*SECRETS_RULE)
        return self


def _named(given: object) -> object:
    if given is None or isinstance(given, Mapping):
        return given
    raise HiddenValueError(*SECRETS_RULE)


def _place(given: object) -> object:
    if not isinstance(given, str):
        return given
    if "@" in given:
        raise HiddenValueError(
            "an address holds no user name or password", "name them under username and password"
        )
    if not given or not given.isprintable() or " " in given:
        raise ValueError("an address is a host or a URL, without spaces")
    return given


NamedSecret = Annotated[SecretKeys | None, BeforeValidator(_named)]
Place = Annotated[str | None, BeforeValidator(_place)]


def secret_of(keys: SecretKeys | None, folder: Path) -> Secret | None:
    """A file is beside the inventory, in ``folder``."""
    return None if keys is None else Secret(env=keys.env, file=beside(folder, keys.file))


def beside(folder: Path, path: Path | None) -> Path | None:
    return None if path is None else folder / path


def layer_named(
    name: str | None, layers: Mapping[str, Any], where: str, key: str, section: str
) -> Mapping[str, Any]:
    """What the section says under the name that ``key`` of an entry gives; raises ``SettingsError``."""
    if name is None:
        return {}
    if name not in layers:
        raise SettingsError(
            f"{where}.{key}",
            repr(name),
            f"known {section} are {', '.join(sorted(layers)) or 'none'}",
            did_you_mean(name, layers, f"add it under {section}"),
        )
    return layers[name] or {}


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` merged on top of ``under``, key by key; a secret is replaced as a whole."""
    both = dict(under)
    for key, value in over.items():
        below = both.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping) and key not in SECRETS:
            both[key] = merged(below, value)
        else:
            both[key] = value
    return both


def said_in(document: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping without its null keys."""
    return {
        key: said_in(value) if isinstance(value, Mapping) else value
        for key, value in document.items()
        if value is not None
    }


def did_you_mean(name: str, known: Mapping[str, Any] | tuple[str, ...], otherwise: str) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f"did you mean {near[0]}?" if near else otherwise
