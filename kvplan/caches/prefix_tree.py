"""prefix-tree: blocks of finished sequences stay in a tree of their tokens, for whoever begins alike.

A node is one whole block under the tokens that lead to it. A new sequence takes the blocks on its
longest known path; when the pool is full the leaf that was used longest ago goes first, unless a
running sequence still refers to it.

Worked: after "the cat sat", a second "the cat ran" in blocks of one token begins with two rows there.

Source: RadixAttention, Zheng et al. 2023 (arXiv:2312.07104), section 3, with edges of one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.caches.block_pool import BlockPool
from kvplan.caches.paged import Paged


class Node:
    """One block of the tree, the tokens in it, and when it was last used."""

    def __init__(self, tokens: tuple[int, ...], block: int, parent: Node | None) -> None:
        self.tokens, self.block, self.parent = tokens, block, parent
        self.children: dict[tuple[int, ...], Node] = {}
        self.used = 0


class PrefixTree:
    """The tree over one pool; it frees leaves when the pool asks for room."""

    def __init__(self, pool: BlockPool) -> None:
        self.pool, self.clock = pool, 0
        self.root = Node((), -1, None)
        pool.make_room = self.evict

    def begin(self, tokens: Sequence[int]) -> Paged:
        """A sequence that already has the rows of the longest prefix of `tokens` in the tree."""
        cache, node = Paged(self.pool), self.root
        for piece in self._pieces(tokens):
            found = node.children.get(piece)
            if found is None:
                break
            node = found
            self._touch(node)
            cache.table.append(self.pool.share(node.block))
            cache.length += self.pool.block_size
        return cache

    def finish(self, cache: Paged, tokens: Sequence[int]) -> None:
        """Keep the whole blocks of a finished sequence, whose rows are those of `tokens`, and let go of it."""
        node = self.root
        for piece, block in zip(self._pieces(tokens[: cache.length]), cache.table, strict=False):
            found = node.children.get(piece)
            if found is None:
                found = Node(piece, self.pool.share(block), node)
                node.children[piece] = found
            node = found
            self._touch(node)
        cache.release()

    def evict(self) -> bool:
        """Free the leaf used longest ago that nobody else refers to; False where there is none."""
        idle = [n for n in self.nodes() if not n.children and self.pool.references[n.block] == 1]
        if not idle:
            return False
        oldest = min(idle, key=lambda node: node.used)
        assert oldest.parent is not None
        del oldest.parent.children[oldest.tokens]
        self.pool.give_back(oldest.block)
        return True

    def nodes(self) -> Iterator[Node]:
        """Every node but the root."""
        waiting = list(self.root.children.values())
        while waiting:
            node = waiting.pop()
            waiting += node.children.values()
            yield node

    def _pieces(self, tokens: Sequence[int]) -> Iterator[tuple[int, ...]]:
        size = self.pool.block_size
        return (tuple(tokens[at : at + size]) for at in range(0, len(tokens) // size * size, size))

    def _touch(self, node: Node) -> None:
        self.clock += 1
        node.used = self.clock
