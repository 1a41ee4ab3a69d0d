"""A model by its hub id: from the local hub cache, or fetched where the user asks for the network.

`cached` reads what a hub client left on this disk and opens no socket. `fetched` asks the hub for config.json
and the headers of safetensors, and for nothing else; `client` bounds what the hub may answer.
"""

from __future__ import annotations

from kvplan.importers import Imported
from kvplan.importers.hub.cached import cached
from kvplan.importers.source import HubId


def read_hub(wanted: HubId, online: bool = False) -> Imported | None:
    """The model that a hub id means, with the commit it was read at; None where the local cache lacks it.

    online: ask the hub, whatever the local cache holds; without it nothing touches the network.

    Raises: InputError for what is missing, closed or damaged; NotCountableError as `read_config` does;
    MissingError without the hub client.
    """
    if not online:
        return cached(wanted)
    from kvplan.importers.hub.fetched import fetched

    return fetched(wanted)
