"""A stack."""


class Stack:
    """Last in, first out."""

    def __init__(self) -> None:
        self._items: list[object] = []

    def push(self, item: object) -> None:
        """Put an item on top."""
        self._items.append(item)

    def pop(self) -> object:
        """Take the item from the top."""
        return self._items.pop(0)
