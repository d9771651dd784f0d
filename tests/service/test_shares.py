"""One client never has all; who waits has it by turns; who stops waiting, or is done, leaves all to the others."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from streamsvm.service.shares import Shares, share_of


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("total", "share"), [(1, 1), (2, 1), (3, 2), (4, 3), (8, 6)])
def test_a_client_has_a_share(total, share):
    shares = Shares(total)
    assert share_of(total) == share
    assert [shares.take("a") for _ in range(share + 1)] == [True] * share + [False]
    assert shares.take("b") == (share < total)


def test_what_is_given_back_goes_to_each_client_in_turn():
    async def work() -> None:
        shares, served = Shares(1), []

        async def one(client: str) -> None:
            await shares.wait(client)
            served.append(client)
            shares.give_back(client)

        assert shares.take("a")
        tasks = [asyncio.ensure_future(one(client)) for client in "aaabbc"]
        await settle()
        assert served == []
        shares.give_back("a")
        await asyncio.gather(*tasks)
        assert served == list("abcaba")
        assert shares.in_use == 0

    run(work())


def test_amounts_and_who_waits_for_much_is_not_overtaken():
    async def work() -> None:
        shares = Shares(100)
        assert shares.take("a", 1000) and shares.in_use == 75
        much = asyncio.ensure_future(shares.wait("b", 60))
        await settle()
        assert not shares.take("c", 1)
        shares.give_back("a", 1000)
        await much
        assert shares.in_use == 60 and shares.take("c", 1)

    run(work())


@pytest.mark.parametrize("is_served", [False, True])
def test_who_stops_waiting_leaves_it_to_others(is_served):
    async def work() -> None:
        shares = Shares(1)
        assert shares.take("a")
        waiting = asyncio.ensure_future(shares.wait("b"))
        await settle()
        if is_served:
            shares.give_back("a")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        if not is_served:
            shares.give_back("a")
        assert shares.in_use == 0 and shares.take("c")

    run(work())


@pytest.mark.parametrize("clients", ["bb", "bc", "bbcc"])
def test_all_who_wait_may_stop_at_once(clients):
    async def work() -> None:
        shares = Shares(1)
        assert shares.take("a")
        waiting = [asyncio.ensure_future(shares.wait(client)) for client in clients]
        await settle()
        shares.give_back("a")
        for each in waiting:
            each.cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(end) for end in ended} == {asyncio.CancelledError}
        assert shares.in_use == 0 and shares.take("d")

    run(work())
