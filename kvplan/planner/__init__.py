"""From a footprint to decisions: a card's budget, and the footprint turned around."""
