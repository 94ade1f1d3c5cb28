#!/usr/bin/env python3
"""For tests: speaks TLS in front of a server of this host that does not.

`tls_front.py CERTIFICATE KEY PORT` prints "ready PORT" with its own port, passes on what comes in there, and
serves until its standard input ends.
"""
import asyncio
import ssl
import sys


async def pump(source, target):
    try:
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    except OSError:  # either side is gone: so is the other one, then
        pass
    target.close()


def passing_on_to(port):
    async def serve(reader, writer):
        near_reader, near_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, near_writer), pump(near_reader, writer))
    return serve


async def main(certificate, key, port):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(passing_on_to(int(port)), "127.0.0.1", 0, ssl=context)
    print("ready", server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
