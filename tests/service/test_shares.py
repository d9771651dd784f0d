"""One client never has all, of slots or of the disk; who waits has it by turns; who is done leaves it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.shares import Room, Shares, share_of

FREE = 4_000_000


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


def code_of(write) -> str:
    with pytest.raises(ServiceError) as caught:
        write()
    return caught.value.code


@pytest.fixture
def room(tmp_path):
    """On a disk of four megabytes, a quarter of which is for answers."""

    def free_bytes(_):
        return FREE - room.in_use

    room = Room(tmp_path, 1 << 40, free_bytes)
    return room


def test_one_client_has_three_quarters_and_all_no_more_than_there_is(room):
    one, other = room.file("a"), room.file("b")
    one.write(bytes(700_000))
    assert code_of(lambda: one.write(bytes(100_000))) == "out_of_space"
    assert code_of(lambda: room.file("a").write(bytes(100_000))) == "out_of_space"
    other.write(bytes(250_000))
    assert code_of(lambda: room.file("c").write(bytes(100_000))) == "out_of_space"
    one.close()
    one.close()
    assert room.in_use == 250_000
    other.write(bytes(450_000))
    other.seek(0)
    assert len(other.read(1 << 20)) == 700_000
    other.close()
    assert room.in_use == 0


def test_the_setting_bounds_it_on_a_large_disk(tmp_path):
    room = Room(tmp_path, 1000, lambda _: 1 << 40)
    with room.file("a") as file:
        file.writelines([bytes(100)] * 7)
        assert code_of(lambda: file.write(bytes(51))) == "answer_too_large"


def test_a_file_on_disk_has_no_name(room, tmp_path):
    with room.file("a") as file:
        file.write(bytes(200_000))
        assert file.fileno() > 0 and not list(tmp_path.iterdir())


def test_nothing_is_taken_after_the_end(room):
    file = room.file("a")
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.write(b"late")
    assert room.in_use == 0
