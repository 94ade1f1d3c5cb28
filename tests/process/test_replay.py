"""`towpath replay`: a KV cache moves between two processes; what goes wrong is reported by name."""
import json
import os
import re
import socket
from xml.etree import ElementTree

import swift_store
from towpath_command import COULD_NOT_RUN, CommandTest, FOUND_WRONG, USAGE, main

# Small pools, so that blocks go to disk and come back.
SMALL = ["--requests", 300, "--host-blocks", 400, "--disk-blocks", 8000, "--quiet"]
MISTAKES = ["swap-kv", "swap-layer", "swap-token", "swap-block", "flip-bit", "short-file",
            "torn-write", "drop-notification"]


class ReplayTest(CommandTest):
    def replay(self, *words, **more):
        return self.run_command("replay", "--directory", self.folder, *SMALL, *words, **more)

    def report(self, *words, **more):
        self.replay(*words, "--json", "report.json", **more)
        return json.loads((self.folder / "report.json").read_text())

    def test_every_block_is_verified_and_disk_serves_its_share(self):
        reported = self.report()
        self.assertTrue(reported["passed"])
        self.assertEqual(reported["requests"], 300)
        self.assertEqual(reported["verified"], reported["blocks"])
        self.assertEqual(reported["mismatches"], 0)
        hits = reported["hits"]
        self.assertEqual(hits["host"] + hits["disk"] + hits["none"], reported["blocks"])
        self.assertGreater(hits["disk"], (hits["host"] + hits["disk"]) / 5)
        hops, size = reported["hops"], reported["block_bytes"]
        self.assertEqual(hops["pull"]["bytes"], reported["blocks"] * size)
        self.assertEqual(hops["load"]["bytes"], hits["disk"] * size)
        self.assertEqual(hops["produce"]["bytes"], hits["none"] * size)
        for hop in hops.values():
            self.assertTrue(hop["path"])
            self.assertLessEqual(hop["p50_ns"], hop["p99_ns"])
            self.assertAlmostEqual(hop["gigabytes_per_second_of_run"], hop["bytes"] / reported["seconds"] / 1e9, places=6)
        if reported["disk"]["direct"]:  # the kernel saw every byte that the backend counts
            self.assertGreaterEqual(reported["kernel"]["read_bytes"], hops["load"]["bytes"])
            self.assertGreaterEqual(reported["kernel"]["written_bytes"], hops["spill"]["bytes"])

    def test_layouts_models_and_the_page_cache_make_no_difference(self):
        for words in (["--decode-layout", "fully_contiguous", "--limit", 120],
                      ["--decode-layout", "layer_separate_block_first", "--in-flight", 1, "--limit", 120],
                      ["--model", "deepseek-v3", "--scale", 64, "--limit", 50],
                      ["--model", "gpt-oss-20b", "--scale", 16, "--limit", 20], ["--buffered", "--limit", 120]):
            with self.subTest(words):
                reported = self.report(*words)
                self.assertEqual(reported["verified"], reported["blocks"])

    def test_a_trace_from_a_file_is_the_same_trace(self):
        self.run_command("trace", "generate", "--requests", 60, "-o", "t.jsonl")
        read = self.report("--trace", "t.jsonl")
        made = self.report("--limit", 60)
        self.assertEqual(read["requests"], 60)
        self.assertEqual(read["blocks"], made["blocks"])

    def test_workers_by_number_serve_each_request_once(self):
        one = self.report()
        many = self.report("--prefill", 2, "--decode", 3)
        self.assertTrue(many["passed"])
        for figure in ("requests", "blocks", "verified", "mismatches", "block_bytes"):
            self.assertEqual(many[figure], one[figure], figure)
        self.assertEqual(sum(many["hits"].values()), many["blocks"])
        self.assertEqual(many["hops"]["pull"]["bytes"], one["hops"]["pull"]["bytes"])
        self.assertEqual((many["prefills"], many["decodes"], many["prefills_lost"]), (2, 3, 0))

    def test_a_pause_of_the_trace_may_be_longer_than_the_timeout(self):
        requests = ((0, [1, 2]), (0, [3]), (9000, [1, 2]))
        (self.folder / "slow.jsonl").write_text("".join(
            json.dumps({"timestamp": ms, "input_length": 512 * len(ids), "output_length": 1, "hash_ids": ids}) + "\n"
            for ms, ids in requests))
        done = self.replay("--trace", "slow.jsonl", "--speed", 1, "--timeout", 6, "--decode", 2)
        self.assertIn("PASSED", done.stdout)
        self.assertNotIn("said nothing", done.stderr)

    def test_a_prefill_that_dies_costs_misses_and_no_wrong_byte(self):
        reported = self.report("--prefill", 2, "--kill-after", 20)
        self.assertTrue(reported["passed"])
        self.assertEqual((reported["requests"], reported["mismatches"]), (300, 0))
        self.assertEqual(reported["verified"], reported["blocks"])
        self.assertEqual(reported["prefills_lost"], 1)
        self.assertIn("--prefill 2", self.run_command("replay", "--kill-after", 5, expect=USAGE).stderr)

    def test_blocks_that_another_prefill_has_are_leased_of_it(self):
        reported = self.report("--prefill", 2, "--decode", 2, "--tiers", "host=400,peers")
        self.assertTrue(reported["passed"], reported["faults"])
        self.assertEqual(reported["verified"], reported["blocks"])
        hits, hops = reported["hits"], reported["hops"]
        self.assertEqual(sum(hits.values()), reported["blocks"])
        self.assertGreater(hits["peers"], 0)
        self.assertEqual(hops["lease"]["bytes"], hits["peers"] * reported["block_bytes"])
        self.assertEqual(set(hops), {"produce", "pull", "lease"})
        done = self.replay("--prefill", 3, "--limit", 60, "--report", "run.html", "--capacities", 50,
                           "--tiers", f"host=400,disk={self.folder / 'kv'}:64MiB,peers")
        self.assertRegex(done.stdout, r"peers +[\d,]+ +[\d.]+ %  of 2 other prefills")
        page = (self.folder / "run.html").read_text()
        self.assertIn("<td class=\"\">peers</td>", page)
        self.assertIn("<td class=\"\">lease</td>", page)

    def test_a_neighbour_that_dies_costs_misses_and_no_wrong_byte(self):
        reported = self.report("--prefill", 3, "--decode", 2, "--kill-after", 60, "--tiers",
                           "host=400,peers")
        self.assertTrue(reported["passed"], reported["faults"])
        self.assertEqual((reported["requests"], reported["mismatches"], reported["bad_loads"]), (300, 0, 0))
        self.assertEqual(reported["verified"], reported["blocks"])
        self.assertEqual(reported["prefills_lost"], 1)
        self.assertGreater(reported["hits"]["peers"], 0)

    def test_a_trace_of_another_format_has_blocks_of_its_size(self):
        line = {"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 40, "turn": 1,
                "output_length": 5, "hash_ids": [7, 8, 9]}
        (self.folder / "t.jsonl").write_text(json.dumps(line) + "\n" + json.dumps(line))
        reported = self.report("--trace", "t.jsonl")
        self.assertEqual((reported["requests"], reported["blocks"], reported["block_bytes"]), (2, 6, 16 * 128))
        self.assertEqual(reported["hits"], {"host": 3, "disk": 0, "object": 0, "peers": 0, "none": 3})

    def test_the_page_has_all_plots_and_needs_nothing_else(self):
        reported = self.report("--report", "run.html", "--capacities", "50,500")
        page = (self.folder / "run.html").read_text()
        svgs = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.S)]
        titles = [svg.find("{*}text[@class='title']").text for svg in svgs]
        self.assertEqual([title.split()[0] for title in titles],
                         ["Hit", "Bytes", "How", "How", "Where"])
        for svg in svgs:  # each shows something
            self.assertGreater(len(svg.findall("{*}circle")), 1)
        self.assertNotRegex(page.replace("http://www.w3.org/2000/svg", ""), "https?:|src=|href=|@import")
        self.assertIn(f"<b>{reported['verified']:,}</b>", page)
        self.assertIn(">passed<", page)
        self.assertIn("--report run.html", page)

    def test_the_page_of_a_run_that_failed_says_so(self):
        self.replay("--inject", "flip-bit", "--report", "run.html", "--capacities", 50,
                    expect=FOUND_WRONG)
        page = (self.folder / "run.html").read_text()
        self.assertIn(">failed<", page)
        self.assertIn("flip-bit", page)

    def test_policies_alone_make_a_page_without_a_run(self):
        self.run_command("replay", "--requests", 60, "--policy", "all", "--capacities", "50,100",
                         "--report", "run.html")
        page = (self.folder / "run.html").read_text()
        self.assertEqual(page.count("<svg"), 1)
        self.assertIn("hit-density: ", page)

    def test_policies_are_compared_with_hints_too(self):
        self.run_command("replay", "--requests", 60, "--policy", "all", "--capacities", "50",
                         "--json", "compared.json")
        [compared] = json.loads((self.folder / "compared.json").read_text())["capacities"]
        self.assertEqual(set(compared["hinted"]), {"lru", "hit-density"})
        for policy, score in compared["hinted"].items():
            self.assertLessEqual(score["hit_ratio"], compared["optimum_hit_ratio"], policy)
            self.assertAlmostEqual(score["hit_ratio"] + score["regret"], compared["optimum_hit_ratio"])

    def test_each_mistake_fails_the_run_by_its_name(self):
        for mistake in MISTAKES:
            with self.subTest(mistake):
                done = self.replay("--inject", mistake, expect=FOUND_WRONG)
                self.assertRegex(done.stdout, rf"FAILED {mistake}, \d+ time")

    def test_a_disk_that_outlives_the_replay_serves_the_next_and_a_flipped_bit_costs_a_block(self):
        store = self.folder / "kv"
        tiers = ["--tiers", f"host=400,disk={store}:8GiB"]
        first = self.report(*tiers)
        segment = min(store.glob("segment-*"))  # full: the next opening takes its word for it
        with open(segment, "r+b") as file:
            file.seek(2 * 4096 + 100)  # in the first block
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 4]))
        second = self.report(*tiers, expect=FOUND_WRONG)
        self.assertTrue(first["passed"])
        self.assertEqual((second["bad_loads"], second["mismatches"]), (1, 0))
        self.assertEqual(second["verified"], first["blocks"])
        self.assertLess(second["hits"]["none"], first["hits"]["none"] / 2)
        self.assertEqual(second["hops"]["load"]["bytes"],
                         second["hits"]["disk"] * second["block_bytes"])

    def test_blocks_in_a_store_serve_the_next_replay_and_are_never_more_than_their_bound(self):
        if not swift_store.is_installed():
            self.skipTest(swift_store.MISSING)
        with swift_store.running_swift() as port:
            bucket = swift_store.Bucket(port, "towpath-replay")
            self.environment = swift_store.environment(port)
            place = "object=s3://towpath-replay/kv"
            words = ["--limit", 4, "--tiers", f"host=100,{place}:32MiB"]
            first, second = self.report(*words), self.report(*words)
            self.assertEqual(len(bucket.names()), first["hits"]["none"])
            self.assertEqual(second["hits"]["object"], first["hits"]["none"])
            self.assertEqual(second["hops"]["fetch"]["bytes"],
                             second["hits"]["object"] * second["block_bytes"])
            smaller = self.report("--limit", 4, "--tiers",
                                  f"host=100,disk={self.folder / 'kv'}:1GiB,{place}:1MiB")
            self.assertEqual(len(bucket.names()), (1 << 20) // (4096 + first["block_bytes"]))
            for reported in (first, second, smaller):
                self.assertEqual(reported["verified"], reported["blocks"])

    def test_a_store_that_does_not_answer_is_reported_before_the_replay_with_the_cause(self):
        with socket.socket() as nobody:  # bound, and nobody listens
            nobody.bind(("127.0.0.1", 0))
            self.environment = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
            place = f"s3://bucket/kv:1GiB?endpoint_override=http://127.0.0.1:{nobody.getsockname()[1]}"
            said = self.replay("--limit", 4, "--tiers", f"host=64,object={place}", expect=COULD_NOT_RUN).stderr
        self.assertIn("the object tier of --tiers does not answer", said)
        self.assertRegex(said, "because: .*127.0.0.1")

    def test_tiers_as_kvbm_s_settings_say(self):
        self.environment = {"DYN_KVBM_CPU_CACHE_OVERRIDE_NUM_BLOCKS": "400",
                            "DYN_KVBM_DISK_CACHE_GB": "1",
                            "DYN_KVBM_DISK_CACHE_DIR": str(self.folder / "kv"),
                            "DYN_KVBM_LEADER_ZMQ_HOST": "here"}
        words = ["--tiers", "kvbm", "--limit", 60]
        first, second = self.report(*words), self.report(*words)
        # At the second access: less is demoted than without the filter.
        self.assertGreater(second["hits"]["disk"], first["hits"]["disk"])
        filtered = first["hops"]["spill"]["bytes"]
        self.assertLess(filtered, first["hits"]["none"] * first["block_bytes"])
        self.assertIn("DYN_KVBM_LEADER_ZMQ_HOST has no effect",
                      self.replay("--tiers", "kvbm", "--limit", 1).stderr)
        del self.environment["DYN_KVBM_DISK_CACHE_DIR"]
        self.assertIn("DYN_KVBM_DISK_CACHE_DIR",
                      self.replay("--tiers", "kvbm", expect=USAGE).stderr)

    def test_each_of_many_mistakes_by_chance_is_found(self):
        for seed, words in ((7, []), (8, ["--prefill", 2, "--decode", 2])):
            with self.subTest(seed):
                reported = self.report("--limit", 120, "--faults", 0.05, "--seed", seed, *words)
                self.assertTrue(reported["passed"], reported["faults"])
                self.assertEqual(reported["seed"], seed)
                made = {one["name"]: one for one in reported["injected"]}
                for name, one in made.items():
                    self.assertEqual(one["found"] + one["gone"], one["made"], name)
                self.assertLessEqual(set(made), {*MISTAKES, "tier-fails"})
                self.assertLessEqual({"flip-bit", "torn-write", "tier-fails"}, set(made))
                if not words:  # only one prefill knows for certain that another order comes
                    self.assertIn("drop-notification", made)
                self.assertGreater(sum(one["found"] for one in made.values()), 20)
                self.assertGreater(reported["mismatches"], 0)
                self.assertEqual(reported["verified"] + reported["mismatches"], reported["blocks"])

    def test_mistakes_of_a_prefill_that_dies_are_accounted_for_as_it_reported_of_them(self):
        disk = f"disk={self.folder / 'kv'}:64MiB"
        for seed, words in ((11, ["--prefill", 2, "--kill-after", 40]),
                            (12, ["--prefill", 3, "--decode", 3, "--kill-after", 15]),
                            (13, ["--prefill", 2, "--kill-after", 40, "--tiers", f"host=400,{disk},peers"]),
                            (14, ["--prefill", 2, "--kill-after", 115])):  # of 120, less what is dropped
            with self.subTest(seed):
                reported = self.report("--limit", 120, "--faults", 0.05, "--seed", seed, *words)
                self.assertTrue(reported["passed"], reported["faults"])
                self.assertLessEqual(reported["prefills_lost"], 1)
                for one in reported["injected"]:
                    self.assertEqual(one["found"] + one["gone"], one["made"], one["name"])
                wrong = sum(one["found"] for one in reported["injected"]
                            if one["name"] in MISTAKES[:5])  # those that decode is served
                self.assertEqual(reported["mismatches"], wrong)
                self.assertEqual(reported["verified"] + reported["mismatches"], reported["blocks"])

    def test_each_mistake_of_a_tier_is_a_miss_and_is_found(self):
        disk = f"disk={self.folder / 'kv'}:64MiB"
        for seed, tiers, words in ((9, f"host=400,{disk}", []),
                                   (10, f"host=400,{disk},peers", ["--prefill", 2])):
            with self.subTest(tiers):
                reported = self.report("--limit", 120, "--faults", 0.05, "--seed", seed, "--tiers", tiers, *words)
                self.assertTrue(reported["passed"], reported["faults"])
                made = {one["name"]: one for one in reported["injected"]}
                for name, one in made.items():
                    self.assertEqual(one["found"] + one["gone"], one["made"], name)
                self.assertLessEqual({"flip-bit", "torn-write", "tier-fails"}, set(made))
                self.assertGreater(made["tier-fails"]["found"], 5)
                self.assertGreater(made["torn-write"]["found"], 0)
                self.assertGreater(reported["hits"]["disk"], 0)
                self.assertEqual(reported["verified"] + reported["mismatches"], reported["blocks"])

    def test_a_report_on_standard_output_is_json_alone(self):
        (self.folder / "stream.csv").write_text(
            "at_ns,node,peer,backend,op,local,remote,bytes,descriptors,runs,took_ns,outcome\n"
            "1,a,b,shm,read,system,system,64,1,1,1,done\n")
        for words in (["--limit", 4], ["--trace", "stream.csv"]):
            with self.subTest(words):
                done = self.run_command("replay", "--quiet", *words, "--json", "-")
                self.assertTrue(json.loads(done.stdout)["passed"])

    def test_a_trace_without_a_request_is_no_success(self):
        (self.folder / "empty.jsonl").touch()
        done = self.run_command("replay", "--directory", self.folder, "--quiet", "--trace", "empty.jsonl", expect=FOUND_WRONG)
        self.assertIn("empty.jsonl has no request", done.stderr)
        self.assertNotIn("PASSED", done.stdout)

    def test_what_cannot_run_says_why(self):
        for words, status, why in ((["--inject", "gremlin"], USAGE, "torn-write, drop-notification\n"),
                                   (["--faults", 2], USAGE, "--faults"),
                                   (["--faults", 0.1, "--inject", "swap-kv"], USAGE, "leave --inject out"),
                                   (["--inject", "tier-fails"], USAGE, "use --faults in place of --inject"),
                                   (["--inject", "swap-kv", "--tiers", "kvbm"], USAGE, "--faults"),
                                   (["--model", "gpt-9"], USAGE, "llama-3.1-8b"),
                                   (["--backend", "pigeon"], USAGE, "no backend type 'pigeon'"),
                                   (["--policy", "all", "--inject", "swap-kv"], USAGE, "--policy all"),
                                   (["--policy", "all", "--faults", 0.1], USAGE, "--policy all"),
                                   (["--worker", 1], USAGE, "--role"),
                                   (["--tokens-per-block", 100], USAGE, "no power of two"),
                                   (["--timeout", "nan"], USAGE, "--timeout"),
                                   (["--timeout", 1e300], USAGE, "--timeout"),
                                   (["--scale", 5000], USAGE, "1 to 1024"),
                                   (["--backend", "POSIX"], USAGE, "reaches no other process"),
                                   (["--decode-layout", "spiral"], USAGE, "fully_contiguous"),
                                   (["--trace", "none.jsonl"], COULD_NOT_RUN, "none.jsonl"),
                                   (["--tiers", "disk=kv"], USAGE, "disk=/var/tmp/kv:10GiB"),
                                   (["--tiers", "host=400,peers"], USAGE, "add --prefill 2"),
                                   (["--speed", -1], USAGE, "--speed"),
                                   (["--scale", 1, "--host-blocks", 10**7], COULD_NOT_RUN, "are available"),
                                   (["--host-blocks", 2], COULD_NOT_RUN, "--host-blocks")):
            with self.subTest(words):
                done = self.run_command("replay", "--directory", self.folder, "--quiet", *words,
                                        expect=status)
                self.assertIn(why, done.stderr)


if __name__ == "__main__":
    main()
