"""Where a service remembers whose settings name no database; commands look there too."""

from __future__ import annotations

from platformdirs import user_state_path

from settings.errors import SettingsError
from settings.model import Settings
from twin.private_folder import make_private_folder


def with_storage(settings: Settings) -> Settings:
    """The settings with a file in the user's folder for state, where they name no database.

    Raises ``SettingsError`` where that cannot be made.
    """
    if settings.storage.url is not None:
        return settings
    folder = user_state_path("ecntwin", appauthor=False)
    try:
        make_private_folder(folder)
    except OSError as error:
        raise SettingsError(
            "settings storage.url",
            "nothing",
            f"the user's folder for state is used then, and {folder} cannot be made ({error.strerror})",
            "name a database, such as sqlite:///ecntwin.db, or memory",
        ) from error
    storage = settings.storage.model_copy(update={"url": f"sqlite:///{folder / 'ecntwin.db'}"})
    return settings.model_copy(update={"storage": storage})
