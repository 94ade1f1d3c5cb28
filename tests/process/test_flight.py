"""`towpath flight`: what a process did last can be read while it runs, after it ended, and after it
was killed in the midst."""
import csv
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import termios
import unittest

import towpath_command
from towpath_command import (COULD_NOT_RUN, CommandTest, FOUND_WRONG, OK, USAGE, WATCHDOG_S, main, take_signals)

HEADER_BYTES = 16512  # docs/formats/flight.md
SMALL = ["--max_block_size", "4K", "--num_iter", "20", "--warmup_iter", "1"]


class FlightTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.flights = self.folder / "flights"
        self.environment = {**os.environ, "NIXL_TELEMETRY_ENABLE": "1",
                            "NIXL_TELEMETRY_DIR": str(self.flights),
                            "NIXL_TELEMETRY_BUFFER_SIZE": "256"}

    def bench(self, *words):
        return subprocess.Popen([towpath_command.COMMAND, "bench", *map(str, words)],
                                env=self.environment, cwd=self.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run_bench(self, *words):
        _, said = (running := self.bench(*words)).communicate(timeout=WATCHDOG_S)
        self.assertEqual(running.returncode, 0, said)
        return running

    def file_of(self, agent, process):
        return self.flights / f"{agent}.{process.pid}.flight"

    def read(self, path, **more):
        return json.loads(self.run_command("flight", path, "--json", "-", **more).stdout)

    def test_both_sides_report_their_story(self):
        initiator = self.run_bench(*SMALL)
        reported = self.read(self.file_of("initiator", initiator))
        self.assertEqual(reported["process"], initiator.pid)
        self.assertEqual(reported["torn"], 0)
        self.assertEqual(reported["not_ended"], [])
        events = [record["event"] for record in reported["records"]]
        for event in ("agent_opened", "registered", "peer_met", "notification_sent",
                      "notification_received", "agent_closed"):
            self.assertIn(event, events)
        self.assertEqual(events.count("transfer_posted"), 21)
        by_ticket = {record["ticket"]: record for record in reported["records"]}
        for record in reported["records"]:
            if record["event"] != "transfer_ended":
                continue
            self.assertEqual((record["who"], record["backend"], record["op"], record["outcome"],
                              record["status"], record["bytes"]),
                             ("target", "shm", "write", "done", "ok", 4096))
            posted = by_ticket[record["posted"]]
            self.assertEqual(posted["event"], "transfer_posted")
            self.assertLessEqual(posted["since_epoch_ns"], record["since_epoch_ns"])
        self.assertEqual(len(list(self.flights.glob("target.*.flight"))), 1)

    def record(self, *words, **more):
        """The rows of the recording, and what was said."""
        done = self.run_command("record", self.flights, "-o", "stream.csv", *words, **more)
        with open(self.folder / "stream.csv", newline="") as lines:
            return list(csv.DictReader(lines)), done.stderr

    def test_a_stream_is_recorded_and_repeated_with_every_byte_looked_at(self):
        self.run_bench(*SMALL, "--max_batch_size", "4", "--op_type", "READ")
        rows, said = self.record()
        reads = [row for row in rows if row["node"] == "initiator"]
        self.assertEqual(len(reads), len(rows))
        self.assertIn(f"{len(rows)} transfers of 2 nodes", said)
        self.assertEqual({(row["peer"], row["backend"], row["op"], row["outcome"]) for row in rows},
                         {("target", "shm", "read", "done")})
        self.assertEqual({row["bytes"] for row in rows}, {"4096", "8192", "16384"})
        self.assertTrue(all(int(row["took_ns"]) > 0 for row in rows))
        with open(self.folder / "stream.csv", "a") as stream:  # and some that went the other way
            stream.write("9,target,initiator,ucx,write,device,system,10000,40,7,1000,done\r\n"
                         "9,target,target,posix,write,system,disk,4096,1,1,1000,done\r\n")
        self.run_command("replay", "--trace", "stream.csv", "--speed", 10, "--json", "reported.json")
        reported = json.loads((self.folder / "reported.json").read_text())
        self.assertTrue(reported["passed"])
        self.assertEqual(reported["transfers"], len(rows) + 1)
        self.assertEqual((reported["verified"], reported["mismatches"]), (len(rows) + 1, 0))
        self.assertEqual(reported["reads"]["bytes"], sum(int(row["bytes"]) for row in rows))
        self.assertEqual(reported["writes"]["bytes"], 7 * 1429, "runs of one length")
        self.assertEqual((reported["left_out"]["own"], reported["other_memory"]), (1, 1))
        self.assertGreater(reported["reads"]["recorded"]["p50_ns"], 0)

    def test_a_recorder_that_is_too_small_is_reported(self):
        running = self.bench("--start_block_size", "4K", "--num_iter", 10**9, "--warmup_iter", 1)
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        while not self.file_of("initiator", running).exists():
            self.assertIsNone(running.poll(), "ended before it was seen")
        rows, said = self.record("--seconds", 1, "--interval", 0.5, expect=FOUND_WRONG)
        self.assertGreater(len(rows), 0)
        self.assertRegex(said, r"records were overwritten[^$]*NIXL_TELEMETRY_BUFFER_SIZE")

    def test_an_interval_does_not_outlast_the_seconds(self):
        running = self.bench("--start_block_size", "256K", "--num_iter", 10**9, "--warmup_iter", 1)
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        while not (self.file_of("initiator", running).exists() and self.top(self.flights)):
            self.assertIsNone(running.poll(), "ended before it was seen")
        done = subprocess.run([towpath_command.COMMAND, "record", self.flights, "-o", os.devnull, "--seconds", "0.2",
                               "--interval", "3600"], capture_output=True, timeout=WATCHDOG_S)
        self.assertIn(done.returncode, (OK, FOUND_WRONG), "of a ring of 256 some may be missed")

    def test_what_cannot_be_recorded_or_repeated_says_why(self):
        self.flights.mkdir()
        (self.flights / "half.1.flight").write_bytes(b"made, and not yet written")
        kept = self.folder / "kept.csv"
        kept.write_text("an older recording")
        for place in (self.folder, self.folder / "none", self.flights):
            said = self.run_command("record", place, "--once", "-o", kept, expect=COULD_NOT_RUN).stderr
            self.assertIn("NIXL_TELEMETRY_DIR", said)
            self.assertEqual(kept.read_text(), "an older recording")
        titles = "at_ns,node,peer,backend,op,local,remote,bytes,descriptors,runs,took_ns,outcome\n"
        path = self.folder / "broken.csv"
        path.write_text(titles + "1,a,b,shm,read,system,system,many,1,1,1,done\n")
        said = self.run_command("replay", "--trace", path, expect=FOUND_WRONG).stderr
        self.assertIn("line 2, column 8: expected a whole number", said)
        path.write_text(titles + "1,a,b,shm,read,system,system,64,1,1,1,done\n")
        for words in (["--inject", "flip-bit"], ["--policy", "all"], ["--capacities", 50], ["--format", "mooncake"],
                      ["--model", "qwen3-8b"], ["--tiers", "kvbm"], ["--tokens-per-block", 16]):
            said = self.run_command("replay", "--trace", path, *words, expect=USAGE).stderr
            self.assertIn(f"has no requests and no blocks: {words[0]}", said)

    def test_what_lies_beside_the_recorders_holds_nothing_up(self):
        self.run_bench(*SMALL)
        os.mkfifo(self.flights / "fifo.1.flight")
        (self.flights / "link.1.flight").symlink_to("/dev/zero")
        self.assertEqual({node["node"] for node in self.top(self.flights)}, {"initiator", "target"})
        self.assertGreater(len(self.record("--once")[0]), 0)
        self.assertIn("no flight recorder", self.run_command("flight", "/dev/null", expect=FOUND_WRONG).stderr)

    def test_a_link_to_a_recorder_is_as_good_as_the_recorder(self):
        path = self.file_of("initiator", self.run_bench(*SMALL))
        gathered = self.folder / "gathered"
        gathered.mkdir()
        (gathered / path.name).symlink_to(path)
        self.assertEqual([node["node"] for node in self.top(gathered)], ["initiator"])
        done = self.run_command("record", gathered, "-o", "gathered.csv", "--once")
        self.assertIn(" transfers of 1 nodes", done.stderr)

    def test_a_directory_that_cannot_be_listed_is_named_with_the_reason(self):
        self.flights.mkdir(mode=0o300)
        self.addCleanup(self.flights.chmod, 0o700)
        library = ctypes.CDLL(None)

        def obey_modes():  # root too: PR_CAPBSET_DROP of CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
            for capability in (1, 2):
                library.prctl(24, capability, 0, 0, 0)

        for command in ("top", "record"):
            said = self.run_command(command, self.flights, expect=COULD_NOT_RUN, before=obey_modes).stderr
            self.assertRegex(said, "cannot list .*Permission denied")

    def test_people_see_a_table_and_only_the_last_when_they_ask(self):
        path = self.file_of("initiator", self.run_bench(*SMALL))
        reported = self.run_command("flight", path).stdout
        self.assertIn("the agent was closed", reported)
        self.assertRegex(reported, r"transfer_ended\s+target\s+write system <-> system over shm, done")
        last = self.run_command("flight", path, "--last", 3).stdout
        self.assertEqual(last.count("#"), 3)
        last = self.run_command("flight", path, "--last", 3, "--json", "-").stdout
        self.assertEqual(json.loads(last)["records"], self.read(path)["records"][-3:])

    def test_process_that_is_killed_leaves_its_last_records(self):
        for moment in range(3):
            with self.subTest(moment):
                running = self.bench("--start_block_size", "256K", "--num_iter", 10**9,
                                     "--warmup_iter", 1)
                self.addCleanup(running.communicate)
                self.addCleanup(running.kill)
                path = self.file_of("initiator", running)
                while not path.exists() or self.posted(path) < random.Random(moment).randrange(2, 99):
                    self.assertIsNone(running.poll(), "ended before it was killed")
                running.kill()
                running.wait(WATCHDOG_S)
                reported = self.read(path)
                self.assertLessEqual(reported["torn"], 1, "one writer was killed in one record at most")
                self.assertGreater(len(reported["records"]), 2)
                self.assertLessEqual(len(reported["not_ended"]), 1)
                tickets = [record["ticket"] for record in reported["records"]]
                self.assertEqual(tickets, sorted(set(tickets)))
                self.assertIn("crashed", self.run_command("flight", path).stdout)

    def test_a_bench_that_nobody_will_wait_for_begins(self):
        running = self.bench("--num_iter", 10**12, "--num_threads", 2, "--max_block_size", "4K", "--warmup_iter", 1)
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        path = self.file_of("initiator", running)
        while not path.exists() or self.posted(path) < 1000:
            self.assertIsNone(running.poll(), "it wanted room for all times at once")

    def posted(self, path):
        """How many transfers a living process has posted, as far as its ring goes back."""
        done = subprocess.run([towpath_command.COMMAND, "flight", str(path), "--json", "-"],
                              capture_output=True, text=True, timeout=WATCHDOG_S)
        if done.returncode == FOUND_WRONG:  # it is there, and not made yet
            return 0
        self.assertEqual(done.returncode, 0, done.stderr)
        reported = json.loads(done.stdout)
        self.assertLessEqual(reported["torn"], 1, "only what is being written now")
        return reported["recorded"]

    def top(self, place, **more):
        return json.loads(self.run_command("top", place, "--json", "-", **more).stdout)["nodes"]

    def test_top_shows_a_node_while_it_runs(self):
        running = self.bench("--start_block_size", "256K", "--num_iter", 10**9, "--warmup_iter", 1)
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        paths = []
        while not paths:  # of the initiator; the target has only its memory
            self.assertIsNone(running.poll(), "ended before it was seen")
            if self.file_of("initiator", running).exists():
                nodes = {node["node"]: node for node in self.top(self.flights)}
                paths = nodes.get("initiator", {}).get("paths", [])
        self.assertTrue(nodes["initiator"]["runs"])
        self.assertEqual([(path["peer"], path["backend"], path["op"]) for path in paths],
                         [("target", "shm", "write")])
        table = self.run_command("top", self.flights, "--once").stdout
        self.assertRegex(table, r"target +shm +write +[\d,]+ +[\d.]+ GB/s")
        self.assertNotIn("\x1b", table)

    def test_an_interrupt_of_top_gives_the_terminal_back(self):
        running = self.bench("--start_block_size", "256K", "--num_iter", 10**9, "--warmup_iter", 1)
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        node = self.file_of("initiator", running)
        while not (node.exists() and any(seen["runs"] for seen in self.top(self.flights))):
            self.assertIsNone(running.poll(), "ended before it was seen")
        person, terminal = os.openpty()
        self.addCleanup(os.close, person)
        self.addCleanup(os.close, terminal)
        before = termios.tcgetattr(terminal)
        top = subprocess.Popen([towpath_command.COMMAND, "top", self.flights], stdin=terminal, stdout=terminal,
                               preexec_fn=take_signals)
        self.addCleanup(top.kill)
        while termios.tcgetattr(terminal) == before:
            self.assertIsNone(top.poll(), "ended before it was interrupted")
        top.send_signal(signal.SIGINT)
        self.assertEqual(top.wait(WATCHDOG_S), 0)
        self.assertEqual(termios.tcgetattr(terminal), before)

    def test_top_reports_what_a_cache_found(self):
        self.environment["NIXL_TELEMETRY_BUFFER_SIZE"] = "4096"
        self.run_command("replay", "--directory", self.folder, "--requests", 30, "--quiet",
                         "--host-blocks", 120, "--disk-blocks", 500, "--json", "reported.json")
        hits = json.loads((self.folder / "reported.json").read_text())["hits"]
        seen = [node for node in self.top(self.flights) if node["node"] == "prefill-0"][0]["blocks"]
        self.assertEqual({place["place"]: place["blocks"] for place in seen["found_in"]},
                         {"miss": hits["none"],
                          **{tier: hits[tier] for tier in ("host", "disk") if hits[tier]}})
        self.assertAlmostEqual(seen["hit_ratio"], 1 - hits["none"] / seen["asked"])
        sizes = {place["bytes"] / place["blocks"] for place in seen["found_in"]}
        self.assertEqual(len(sizes), 1, "all blocks are of one size")
        self.assertTrue(all(place["bytes_per_second"] > 0 for place in seen["found_in"]))
        reported = self.run_command("top", self.flights).stdout
        self.assertRegex(reported, r"hit ratio \d+\.\d %")
        self.assertRegex(reported, r"host +[\d,]+ +[\d.]+ [KMG]?B/s")

    def test_every_process_of_a_replay_says_farewell_and_nobody_is_lost(self):
        done = self.run_command("replay", "--directory", self.folder, "--requests", 20, "--quiet",
                                "--prefill", 2, "--decode", 2)
        self.assertNotIn("peer lost", done.stderr)
        nodes = self.top(self.flights)
        self.assertEqual({node["node"]: (node["closed"], node["lost"]) for node in nodes},
                         {name: (True, []) for name in ("prefill-0", "prefill-1", "decode-0",
                                                        "decode-1")})

    def test_a_prefill_that_is_killed_says_none_and_is_lost(self):
        done = self.run_command("replay", "--directory", self.folder, "--requests", 20, "--quiet",
                                "--prefill", 2, "--kill-after", 5)
        self.assertIn("peer lost", done.stderr)
        nodes = {node["node"]: node for node in self.top(self.flights)}
        self.assertEqual({name: node["closed"] for name, node in nodes.items()},
                         {"prefill-0": True, "prefill-1": False, "decode-0": True})
        self.assertEqual(nodes["decode-0"]["lost"], ["prefill-1"])

    def test_top_of_nodes_that_ended_reports_all_they_left_and_ends(self):
        path = self.file_of("initiator", self.run_bench(*SMALL))
        node, = self.top(path)
        self.assertEqual((node["runs"], node["closed"]), (False, True))
        self.assertEqual([(path["ended"], path["bytes"], path["failed"], path["in_flight"])
                          for path in node["paths"]], [(21, 21 * 4096, 0, 0)])
        self.assertIn("was closed", self.run_command("top", self.flights).stdout)

    def test_a_node_that_ended_without_a_farewell_does_not_run_when_another_has_its_number(self):
        path = self.file_of("initiator", self.run_bench(*SMALL))
        farewell = self.read(path)["records"][-1]
        self.assertEqual(farewell["event"], "agent_closed")
        ring = bytearray(path.read_bytes())
        slot = HEADER_BYTES + farewell["ticket"] % 256 * 64
        ring[slot:slot + 64] = bytes(64)
        ring[32:40] = (1).to_bytes(8, sys.byteorder)  # its process: 1 there always is
        path.write_bytes(ring)
        node, = self.top(path)
        self.assertEqual((node["process"], node["runs"], node["closed"]), (1, False, False))
        self.run_command("record", path, "-o", "stream.csv")  # and ends

    def test_top_says_when_there_is_nothing_to_see(self):
        self.assertIn("NIXL_TELEMETRY_DIR",
                      self.run_command("top", self.flights, expect=COULD_NOT_RUN).stderr)
        self.flights.mkdir()
        self.assertIn("NIXL_TELEMETRY_DIR",
                      self.run_command("top", self.flights, expect=COULD_NOT_RUN).stderr)
        (self.flights / "half.1.flight").write_bytes(b"made, and not yet written")
        self.assertEqual(self.top(self.flights), [])
        self.run_command("top", self.flights / "half.1.flight", expect=FOUND_WRONG)

    def test_a_recording_of_what_is_no_recorder_ends(self):
        self.flights.mkdir()
        (self.flights / "half.1.flight").write_bytes(b"made, and never written")
        self.assertIn("no flight recorder", self.run_command("record", self.flights, expect=COULD_NOT_RUN).stderr)

    def test_what_is_no_flight_recorder_is_refused(self):
        whole = self.file_of("initiator", self.run_bench(*SMALL)).read_bytes()
        for name, content in (("empty", b""), ("text", b"hello" * 9000), ("cut", whole[:-64]),
                              ("version", whole[:8] + b"\xff" * 8 + whole[16:]),
                              ("capacity", whole[:16] + b"\xff" * 8 + whole[24:])):
            with self.subTest(name):
                (self.folder / name).write_bytes(content)
                status = COULD_NOT_RUN if name == "version" else FOUND_WRONG
                done = self.run_command("flight", name, expect=status)
                self.assertIn(name, done.stderr)
        self.run_command("flight", "not there", expect=COULD_NOT_RUN)
        self.run_command("flight", expect=USAGE)

    def test_any_damage_is_survived(self):
        whole = self.file_of("initiator", self.run_bench(*SMALL)).read_bytes()
        dice = random.Random(7)
        for _ in range(20):
            damaged = bytearray(whole)
            for _ in range(200):
                damaged[dice.randrange(24, len(damaged))] = dice.randrange(256)
            (self.folder / "damaged").write_bytes(damaged)
            done = subprocess.run([towpath_command.COMMAND, "flight", "damaged", "--json", "x"],
                                  cwd=self.folder, capture_output=True, timeout=WATCHDOG_S)
            self.assertIn(done.returncode, (0, FOUND_WRONG), done.stderr)

    def test_environment_that_makes_no_sense_is_reported(self):
        self.environment["NIXL_TELEMETRY_BUFFER_SIZE"] = "many"
        running = self.bench(*SMALL)
        _, said = running.communicate(timeout=WATCHDOG_S)
        self.assertEqual(running.returncode, USAGE)
        self.assertIn("NIXL_TELEMETRY_BUFFER_SIZE", said)
        self.environment["NIXL_TELEMETRY_BUFFER_SIZE"] = "16"
        self.environment["NIXL_TELEMETRY_ENABEL"] = "1"
        _, said = self.bench(*SMALL).communicate(timeout=WATCHDOG_S)
        self.assertIn("NIXL_TELEMETRY_ENABEL", said)


if __name__ == "__main__":
    main()
