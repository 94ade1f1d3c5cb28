#!/usr/bin/env python3
"""A `towpath serve` and engines that are killed, stopped and started at random, as it is: every loaded byte is verified.

    serve.py [--seconds 120] [--seed 1]     over build/release
"""
import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENS, ENGINES, DOCUMENTS, BLOCKS = 4, 4, 40, 16


def engine(address, seed):
    """Serves random prompts of a few documents, until it ends by itself or is killed. Status 7: a wrong byte."""
    sys.path.insert(0, str(ROOT / "build/release/python"))
    import numpy
    from towpath.connector import Scheduler, Worker
    chance, served, loaded = random.Random(seed), 0, 0
    layers = [numpy.zeros((2, BLOCKS, TOKENS, 2, 64), numpy.float16) for _ in range(2)]
    verified = pathlib.Path(address.removeprefix("unix:")).with_name("verified")
    worker, scheduler = Worker(layers, name_space="soak", host_blocks=24, server=address), Scheduler(TOKENS)
    while chance.random() > 0.0002:
        document, count = chance.randrange(DOCUMENTS), 1 + chance.randrange(6)
        tokens, request = range(1000 * document, 1000 * document + TOKENS * count + 1), f"r{served}"
        blocks = chance.sample(range(BLOCKS), count)
        scheduler.update(worker.take_report())
        found, _ = scheduler.match(request, tokens)
        for layer in layers:
            layer[:, blocks] = -1
        scheduler.allocate(request, blocks + [0], found)
        scheduler.advance(request, found, TOKENS * count)
        worker.start_step(scheduler.build())
        for layer in range(2):
            worker.wait_for_layer_load(layer)
        failed = set(worker.take_failed_blocks())
        for i, block in enumerate(blocks):
            right = numpy.random.default_rng(100 * document + i).random((2, 2, TOKENS, 2, 64)).astype(numpy.float16)
            for layer in range(2):
                if i >= found // TOKENS or block in failed:
                    layers[layer][:, block] = right[layer]
                elif not (layers[layer][:, block] == right[layer]).all():
                    print(f"engine {seed}: block {i} of document {document} is wrong", flush=True)
                    os._exit(7)
        loaded += found // TOKENS - len(failed)
        if loaded > 0 and worker.figures()["leased"] > 0:
            verified.touch()
        worker.wait_for_save()
        scheduler.update(worker.take_report())
        scheduler.finish(request)
        served += 1
    worker.close()


class House:

    def __init__(self, folder, seed):
        self.folder, self.chance, self.last = pathlib.Path(folder), random.Random(seed), 1000 * seed
        self.log = open(self.folder / "log", "w")
        self.engines, self.killed, self.servers = [], 0, 0
        self.start_server()

    def start_server(self):
        self.servers += 1
        self.server = subprocess.Popen(
            [ROOT / "build/release/tools/towpath", "serve", "--socket", self.folder / "serve", "--memory", "2MiB", "--directory",
             self.folder / "kv", "--disk", "8MiB"], stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.server.stdout.readline()

    def start_engines(self):
        while len(self.engines) < ENGINES:
            self.last += 1
            self.engines.append(subprocess.Popen([sys.executable, __file__, "--engine", f"unix:{self.folder}/serve", str(self.last)],
                                                 stderr=self.log))

    def watch(self, seconds):
        """So long, unless the server ends, which it must not."""
        try:
            sys.exit(f"the server ended with {self.server.wait(seconds)}")
        except subprocess.TimeoutExpired:
            pass

    def check(self):
        """No engine found a wrong byte."""
        for one in [one for one in self.engines if one.poll() is not None]:
            if one.returncode != 0:
                sys.exit(f"an engine ended with {one.returncode}")
            self.engines.remove(one)

    def disturb(self):
        if not self.engines:
            return
        what, one = self.chance.random(), self.chance.choice(self.engines)
        if what < 0.3:
            one.kill()
            one.wait()
            self.engines.remove(one)
            self.killed += 1
        elif what < 0.36:
            self.server.kill()
            self.server.wait()
            self.start_server()
        elif what < 0.4:
            one.send_signal(signal.SIGSTOP)
            self.watch(3 * self.chance.random())
            one.send_signal(signal.SIGCONT)

    def end(self):
        for one in self.engines:
            one.kill()
        self.server.terminate()
        table, _ = self.server.communicate(timeout=60)
        if self.server.returncode != 0:
            sys.exit(f"the server ended with {self.server.returncode}")
        return "\n".join(table.splitlines()[-2:])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=120)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--engine", nargs=2, metavar=("ADDRESS", "SEED"), help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.engine:
        return engine(args.engine[0], int(args.engine[1]))
    with tempfile.TemporaryDirectory(prefix="towpath-soak-") as folder:
        house, end = House(folder, args.seed), time.monotonic() + args.seconds
        while time.monotonic() < end:
            house.start_engines()
            house.watch(house.chance.random())
            house.check()
            house.disturb()
        table = house.end()
        if not (house.folder / "verified").exists():
            sys.exit("no engine loaded a byte of the server's: nothing was verified")
    print(f"{house.last - 1000 * args.seed} engines, {house.killed} of them killed, {house.servers} servers: no wrong byte\n{table}")


if __name__ == "__main__":
    main()
