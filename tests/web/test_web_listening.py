"""The socket that ``goscheduler web`` listens on."""

from __future__ import annotations

import asyncio
import socket

from goscheduler.web.serve import Listening, bound


def test_an_answer_in_two_packets_does_not_wait_for_the_first_to_be_acknowledged():
    async def main():
        listener, met = bound(Listening("127.0.0.1", 0)), asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(lambda reader, writer: met.set_result(writer), sock=listener)
        _, ours = await asyncio.open_connection(*listener.getsockname())
        theirs = await asyncio.wait_for(met, 60)
        told = theirs.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        for each in (ours, theirs, server):
            each.close()
        return told

    assert asyncio.run(main())
