"""`towpath bench` and `towpath explain`: bytes move between two agents, are timed, and every one of
them is examined."""
import json
import os
import signal
import subprocess
import unittest
from pathlib import Path

import swift_store
import towpath_command
from towpath_command import COULD_NOT_RUN, CommandTest, FOUND_WRONG, USAGE, WATCHDOG_S, main

# nixlbench's, which people and their scripts know.
COLUMNS = ["Block Size (B)", "Batch Size", "B/W (GB/Sec)", "Avg Lat. (us)", "Avg Prep", "P99 Prep",
           "Avg Post", "P99 Post", "Avg Tx", "P99 Tx"]
SMALL = ["--start_block_size", "1K", "--max_block_size", "4K", "--max_batch_size", 2,
         "--num_iter", 20, "--warmup_iter", 2]


class BenchTest(CommandTest):
    def bench(self, *words, **more):
        return self.run_command("bench", *SMALL, *words, **more)

    def rows(self, *words):
        reported = json.loads(self.bench(*words, "--json", "-").stdout)
        self.assertTrue(reported["passed"])
        return reported, reported["rows"]

    def test_two_processes_move_every_shape_and_every_byte_is_right(self):
        for op in ("READ", "WRITE"):
            with self.subTest(op):
                reported, rows = self.rows("--op_type", op)
                self.assertEqual(reported["backend"], "shm")
                self.assertEqual([(row["block_size"], row["batch_size"]) for row in rows],
                                 [(size, batch) for size in (1024, 2048, 4096) for batch in (1, 2)])
                for row in rows:
                    self.assertTrue(row["verified"])
                    self.assertEqual(row["bytes"], 20 * row["block_size"] * row["batch_size"])
                    latency = row["latency_ns"]
                    self.assertLessEqual(latency["p50"], latency["p90"])
                    self.assertLessEqual(latency["p90"], latency["p99"])
                    self.assertLessEqual(latency["p99"], latency["max"])

    def test_a_normal_end_is_no_loss_to_either_side(self):
        for words in ([], ["--enable_pt"], ["--one_process"], ["--backend", "ucx"]):
            with self.subTest(words):
                self.assertNotIn("peer", self.bench("--num_iter", 1, *words).stderr)

    def test_people_see_the_columns_of_nixlbench_and_the_path(self):
        reported = self.bench().stdout
        titles = next(line for line in reported.splitlines() if "Block Size" in line)
        self.assertEqual([title for title in COLUMNS if title not in titles], [])
        self.assertLess(titles.index("Avg Lat."), titles.index("P99 Tx"))
        self.assertEqual(reported.count(" ok\n"), 6)
        self.assertRegex(reported, r"path: \w+")

    def test_threads_depth_and_new_transfers_make_no_difference_to_the_bytes(self):
        for words in (["--num_threads", 3, "--pipeline_depth", 4], ["--recreate_xfer", "--scatter"],
                      ["--enable_pt"], ["--one_process"], ["--check_consistency"], ["--backend", "loopback"]):
            with self.subTest(words):
                _, rows = self.rows(*words)
                self.assertTrue(all(row["verified"] for row in rows))

    def test_a_file_is_measured_and_nothing_of_it_is_left(self):
        for words in ([], ["--op_type", "READ"], ["--filename", "some/file"]):
            with self.subTest(words):
                reported, _ = self.rows("--target_seg_type", "FILE", "--backend", "POSIX", "--filepath",
                                    self.folder, *words)
                self.assertEqual(reported["backend"], "posix")
                self.assertEqual([path for path in self.folder.rglob("*") if path.is_file()], [])

    def test_a_file_with_a_name_does_not_outlive_a_bench_that_is_killed(self):
        running = subprocess.Popen([towpath_command.COMMAND, "bench", "--target_seg_type", "FILE", "--filename", "named",
                                    "--num_iter", str(10**9), "--max_block_size", "4K"], cwd=self.folder, text=True,
                                   stdout=subprocess.PIPE)
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        while "Block Size" not in running.stdout.readline():
            self.assertIsNone(running.poll(), "it ended before it measured")
        running.kill()
        running.wait(WATCHDOG_S)
        self.assertFalse((self.folder / "named").exists())

    def test_a_backend_of_files_measures_a_file_as_with_nixlbench(self):
        reported, _ = self.rows("--backend", "POSIX", "--filepath", self.folder)
        self.assertEqual((reported["backend"], reported["target_kind"]), ("posix", "disk"))

    def test_objects_are_measured_and_removed(self):
        if not swift_store.is_installed():
            self.skipTest(swift_store.MISSING)
        with swift_store.running_swift() as port:
            bucket = swift_store.Bucket(port, "towpath-bench")
            self.environment = {**swift_store.environment(port), "AWS_DEFAULT_BUCKET": bucket.name}
            for words in ([], ["--op_type", "READ", "--num_threads", 2, "--pipeline_depth", 2]):
                with self.subTest(words):
                    reported, rows = self.rows("--target_seg_type", "OBJ", "--num_iter", 2, *words)
                    self.assertEqual(reported["backend"], "object")
                    self.assertTrue(all(row["verified"] for row in rows))
                    self.assertEqual(bucket.names(), [])

    def test_pinned_and_device_memory_go_everywhere_and_a_device_that_is_none_says_so(self):
        for kind in ("PINNED", "VRAM"):
            for words in ([], ["--op_type", "READ", "--target_seg_type", "FILE"]):
                with self.subTest([kind, *words]):
                    words = ["--initiator_seg_type", kind, "--device", "host", *words]
                    reported, rows = self.rows(*words)
                    self.assertTrue(all(row["verified"] for row in rows))
                    self.assertIn("host memory emulates the device", reported["path"])
                    self.assertEqual("staged through" in reported["path"], kind == "VRAM")

    def test_the_target_may_have_pinned_or_device_memory_too(self):
        kinds = ("DRAM", "PINNED", "VRAM")
        pairs = [(near, far) for near in kinds for far in kinds if far != "DRAM"]
        for backend, pairs in (("shm", pairs), ("tcp", [("DRAM", "VRAM"), ("VRAM", "VRAM")]),
                               ("ucx", [("DRAM", "VRAM"), ("VRAM", "VRAM")])):
            for near, far in pairs:
                for op in ("READ", "WRITE"):
                    with self.subTest([backend, near, far, op]):
                        reported, rows = self.rows("--backend", backend, "--op_type", op,
                                               "--device", "host", "--initiator_seg_type", near,
                                               "--target_seg_type", far)
                        self.assertTrue(all(row["verified"] for row in rows))
                        self.assertIn("host memory emulates the device", reported["remote"])

    def test_bytes_are_not_looked_at_when_nobody_wants_it(self):
        _, rows = self.rows("--no_check")
        self.assertFalse(any(row["verified"] for row in rows))

    def test_what_cannot_be_measured_says_why(self):
        (self.folder / "there").write_text("precious")
        self.environment = {"AWS_DEFAULT_BUCKET": "", "CUDA_VISIBLE_DEVICES": ""}
        for words, status, why in (
                (["--op_type", "SWAP"], USAGE, "neither READ nor WRITE"),
                (["--backend", "carrier-pigeon"], USAGE, "shm"),
                (["--backend", "all"], USAGE, "explain"),
                (["--max_block_size", "512"], USAGE, "--max_block_size"),
                (["--max_block_size", "1G"], USAGE, "--total_buffer_size"),
                (["--initiator_seg_type", "FILE"], USAGE, "DRAM, PINNED or VRAM, and --target_seg_type FILE"),
                (["--initiator_seg_type", "TAPE"], USAGE, "use DRAM, PINNED or VRAM\n"),
                (["--target_seg_type", "TAPE"], USAGE, "FILE, OBJ or BLK"),
                (["--filename", "new"], USAGE, "--filename"),
                (["--drive", "there"], USAGE, "--drive"),
                (["--filepath", self.folder], USAGE, "--filepath"),
                (["--storage_enable_direct"], USAGE, "--storage_enable_direct"),
                (["--one_process", "--connect", "127.0.0.1:1"], USAGE, "--one_process"),
                (["--backend", "loopback", "--listen", "127.0.0.1:0"], USAGE, "--one_process"),
                (["--target_seg_type", "FILE", "--connect", "h:1"], USAGE, "--connect"),
                (["--target_seg_type", "FILE", "--filename", "there"], COULD_NOT_RUN, "there"),
                (["--target_seg_type", "BLK"], USAGE, "--overwrite_drive"),
                (["--target_seg_type", "BLK", "--drive", "there"], USAGE, "--overwrite_drive"),
                (["--target_seg_type", "OBJ"], USAGE, "bucket"),
                (["--target_seg_type", "VRAM"], COULD_NOT_RUN, "hint:"),
                (["--json", "no/such/folder/rows.json"], COULD_NOT_RUN, "no/such/folder"),
                (["--connect", "127.0.0.1:1", "--backend", "shm", "--timeout", 0.3], COULD_NOT_RUN,
                 "127.0.0.1")):
            with self.subTest(words):
                done = self.bench(*words, expect=status)
                self.assertIn(why, done.stderr)
        self.assertEqual((self.folder / "there").read_text(), "precious")


class HostsTest(CommandTest):
    """The two sides started by hand, as on two hosts."""

    def listen(self, *words):
        target = subprocess.Popen([towpath_command.COMMAND, "bench", "--listen", "127.0.0.1:0",
                                   *map(str, words)], cwd=self.folder, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(target.communicate)
        self.addCleanup(target.kill)
        said = target.stdout.readline()
        self.assertRegex(said, r"tcp://127\.0\.0\.1:\d+")
        return target, said.split("tcp://")[1].split(",")[0]

    def test_initiator_meets_who_listens_and_both_end(self):
        target, where = self.listen("--backend", "shm")
        done = self.run_command("bench", *SMALL, "--backend", "shm", "--connect", where)
        self.assertEqual(done.stdout.count(" ok\n"), 6)
        _, said = target.communicate(timeout=WATCHDOG_S)
        self.assertEqual(target.returncode, 0)
        self.assertNotIn("peer lost", done.stderr + said)

    def test_explain_asks_who_listens_with_all_backends(self):
        _, where = self.listen("--backend", "all")
        done = self.run_command("explain", "--connect", where, "--json", "-")
        self.assertEqual(json.loads(done.stdout)["chosen"], "shm")

    def test_unauthenticated_without_the_token_is_refused(self):
        (self.folder / "secret").write_text("0123456789abcdef" * 4 + "\n")
        (self.folder / "guess").write_text("0123456789abcdee" * 4 + "\n")
        target, where = self.listen("--backend", "shm", "--token_file", "secret")
        words = ["bench", *SMALL, "--backend", "shm", "--connect", where, "--timeout", 5]
        self.run_command(*words, expect=COULD_NOT_RUN)
        self.run_command(*words, "--token_file", "guess", expect=COULD_NOT_RUN)
        self.run_command(*words, "--token_file", "secret")
        self.assertEqual(target.wait(WATCHDOG_S), 0)

    def test_wider_than_this_host_only_with_a_token(self):
        done = self.run_command("bench", "--listen", "0.0.0.0:0", "--backend", "shm",
                                expect=COULD_NOT_RUN)
        self.assertIn("token", done.stderr)

    def test_initiator_ends_when_the_target_is_killed(self):
        target, where = self.listen("--backend", "shm")
        initiator = subprocess.Popen([towpath_command.COMMAND, "bench", "--backend", "shm",
                                      "--connect", where, "--num_iter", str(10**9)],
                                     cwd=self.folder, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE)
        self.addCleanup(initiator.kill)
        titles = initiator.stdout.readline() + initiator.stdout.readline()
        self.assertIn(b"shm", titles)
        target.send_signal(signal.SIGKILL)
        _, said = initiator.communicate(timeout=WATCHDOG_S)
        self.assertEqual(initiator.returncode, COULD_NOT_RUN, said)
        self.assertIn(b"target", said)
        self.assertRegex(said, rb"peer[ _]lost")  # in mid-transfer, or before


class ExplainTest(CommandTest):
    def explain(self, *words, **more):
        return json.loads(self.run_command("explain", "--size", "4K", "--count", 4, *words,
                                           "--json", "-", **more).stdout)

    def candidates(self, *words, **more):
        reported = self.explain(*words, **more)
        return reported, {way["backend"]: way for way in reported["candidates"]}

    def test_between_processes_one_way_is_taken_and_the_others_refused_with_a_reason(self):
        reported, ways = self.candidates()
        self.assertEqual(reported["chosen"], "shm")
        self.assertGreater(ways["shm"]["estimate_ns"], 0)
        self.assertGreater(ways["shm"]["measured_ns"]["p50"], 0)
        self.assertTrue(ways["shm"]["verified"])
        for backend in ("loopback", "posix"):
            self.assertFalse(ways[backend]["possible"])
            self.assertNotIn("measured_ns", ways[backend])
            self.assertTrue(ways[backend]["reason"])
        self.assertIn("process", ways["loopback"]["reason"])

    def test_kinds_and_places_change_the_choice(self):
        self.assertEqual(self.explain("--one_process")["chosen"], "loopback")
        for op in ("READ", "WRITE"):
            reported, ways = self.candidates("--remote", "disk", "--filepath", self.folder, "--op_type",
                                         op)
            self.assertEqual(reported["chosen"], "posix")
            self.assertTrue(ways["posix"]["verified"])
            self.assertIn(op.lower(), reported["what"])

    def test_for_a_device_s_memory_what_was_measured_decides(self):
        reported, ways = self.candidates("--local", "device", "--device", "host", "--remote", "disk",
                                     "--filepath", self.folder)
        self.assertEqual(reported["chosen"], "posix")
        self.assertEqual(ways["posix"]["reason"], "was fastest")
        self.assertTrue(ways["posix"]["estimate_is_measured"])
        self.assertTrue(ways["posix"]["verified"])
        _, ways = self.candidates("--local", "device", "--device", "host", "--remote", "disk",
                                  "--filepath", self.folder, "--no_measure")
        self.assertFalse(ways["posix"]["estimate_is_measured"])
        self.assertIn("tried", ways["posix"]["reason"])

    def test_a_device_s_memory_of_the_other_agent_is_asked_about_too(self):
        for kind in ("pinned", "device"):
            reported, ways = self.candidates("--remote", kind, "--device", "host")
            self.assertIn(kind, reported["what"])
            self.assertTrue(ways[reported["chosen"]]["verified"])

    def test_a_store_is_asked_about_and_measured_and_nothing_of_it_is_left(self):
        if not swift_store.is_installed():
            self.skipTest(swift_store.MISSING)
        with swift_store.running_swift() as port:
            bucket = swift_store.Bucket(port, "towpath-explain")
            self.environment = {**swift_store.environment(port), "AWS_DEFAULT_BUCKET": bucket.name}
            reported, ways = self.candidates("--remote", "object")
            self.assertEqual(reported["chosen"], "object")
            self.assertGreater(ways["object"]["estimate_ns"], 0)
            self.assertTrue(ways["object"]["verified"])
            self.assertIn("system and object", ways["posix"]["reason"])
            self.assertEqual(bucket.names(), [])

    def test_storage_on_this_side_has_no_way_and_each_backend_says_why(self):
        for remote in ("system", "disk"):
            with self.subTest(remote):
                words = ["--local", "disk", "--remote", remote, "--filepath", self.folder]
                reported, ways = self.candidates(*words, expect=FOUND_WRONG)
                self.assertIsNone(reported["chosen"])
                self.assertIn(f"disk <- {remote}", reported["what"])
                for backend in ("posix", "shm"):
                    self.assertFalse(ways[backend]["possible"])
                    self.assertIn(f"between disk and {remote}", ways[backend]["reason"])
        reported = self.run_command("explain", "--local", "disk", expect=FOUND_WRONG).stdout
        self.assertIn("Storage is the remote side of a transfer", reported)

    def test_the_end_of_asking_is_no_loss(self):
        for words in ([], ["--one_process"], ["--no_measure"]):
            with self.subTest(words):
                self.assertNotIn("peer lost", self.run_command("explain", *words).stderr)

    def test_only_asking_measures_nothing(self):
        _, ways = self.candidates("--no_measure")
        self.assertNotIn("measured_ns", ways["shm"])

    def test_people_see_marks_and_reasons(self):
        reported = self.run_command("explain").stdout
        self.assertRegex(reported, r"(?m)^\s+\*\s+shm")
        self.assertRegex(reported, r"(?m)^\s+-\s+loopback")
        self.assertIn("taken: ", reported)
        self.assertIn("refused: ", reported)

    def test_what_makes_no_sense_says_why(self):
        for words, why in ((["--remote", "moon"], "system"), (["--op_type", "x"], "READ"),
                           (["--local", "moon"], "object"), (["--device", "cpu"], "gpu"),
                           (["--filepath", self.folder], "--filepath"), (["--drive", "/dev/null"], "--drive"),
                           (["--remote", "block"], "--drive"), (["--local", "block"], "--drive"),
                           (["--remote", "block", "--drive", "/dev/null"], "--overwrite_drive"),
                           (["--remote", "disk", "--connect", "h:1"], "--connect"),
                           (["--one_process", "--connect", "h:1"], "--one_process"),
                           (["--size", "2G"], "bounds")):
            done = self.run_command("explain", *words, expect=USAGE)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    main()
