"""`towpath run`: jobs of several processes, judged by what they print, their status and what they leave."""
import os
import re
import signal
import subprocess
import sys
import time
import unittest

import namespaces
import towpath_command
from towpath_command import CommandTest, COULD_NOT_RUN, OK, USAGE, WATCHDOG_S, take_signals

RING = sys.argv.pop()
SH = ["sh", "-c"]


class RunTest(CommandTest):
    def run_pes(self, pes, *words, options=(), expect=OK):
        return self.run_command("run", "-n", pes, *options, "--", *words, expect=expect)

    def test_a_token_goes_around(self):
        for pes in (1, 2, 4):
            self.assertEqual(self.run_pes(pes, RING).stdout,
                             f"{pes} PEs, 3 rounds: the token is {3 * pes}\n")

    def test_every_pe_knows_its_number(self):
        done = self.run_pes(3, *SH, "echo pe $TOWPATH_SHMEM_PE", options=["--prefix"])
        self.assertEqual(sorted(done.stdout.splitlines()), [f"[{pe}] pe {pe}" for pe in range(3)])

    def test_prefixes_are_for_whole_lines_of_both_outputs(self):
        done = self.run_pes(1, *SH, "printf 'a\\nb'; printf 'c\\n' >&2", options=["--prefix"])
        self.assertEqual((done.stdout, done.stderr), ("[0] a\n[0] b\n", "[0] c\n"))

    def test_the_rest_of_a_line_is_passed_on_though_a_child_holds_the_output_open(self):
        done = self.run_pes(1, *SH, "sleep 3 & printf 'a\\nb'", options=["--prefix"])
        self.assertEqual(done.stdout, "[0] a\n[0] b\n")

    def test_the_first_failure_is_the_status_and_is_reported(self):
        done = self.run_pes(2, *SH, 'test $TOWPATH_SHMEM_PE = 0 || exit 7', expect=7)
        self.assertIn("PE 1 ended with status 7", done.stderr)
        done = self.run_pes(2, *SH, 'test $TOWPATH_SHMEM_PE = 0 || kill -9 $$', expect=137)
        self.assertIn("PE 1 was ended by signal 9 (Killed)", done.stderr)

    def test_those_that_wait_are_reported_who_died(self):
        # PE 1 dies before it begins; the ring's PE 0 hears of it and fails by itself.
        done = self.run_pes(2, *SH, f'test $TOWPATH_SHMEM_PE = 0 || kill -9 $$; exec {RING}', expect=137)
        self.assertIn("PE 1 died before all had begun", done.stderr)

    def test_those_that_do_not_end_are_ended(self):
        began = time.monotonic()
        self.run_pes(2, *SH, 'test $TOWPATH_SHMEM_PE = 0 && exec sleep 100; exit 3',
                     options=["--grace", "0"], expect=3)
        self.assertLess(time.monotonic() - began, 90)  # well below what it would have slept

    def test_kept_survivors_go_on(self):
        done = self.run_pes(2, *SH, 'test $TOWPATH_SHMEM_PE = 1 && exit 3; sleep 0.2; echo done',
                            options=["--keep", "--grace", "0"], expect=3)
        self.assertEqual(done.stdout, "done\n")

    def test_a_pe_may_start_a_job_of_its_own(self):
        inner = f"exec {towpath_command.COMMAND} run -n 2 -- {RING}"
        done = self.run_pes(2, *SH, f"test $TOWPATH_SHMEM_PE = 0 || exit 0; {inner}",
                            options=["--hosts", "a,b", "--launcher", "sh -c {command}"])
        self.assertEqual(done.stdout, "2 PEs, 3 rounds: the token is 6\n", done.stderr)

    def test_a_place_to_meet_without_hosts_is_refused(self):
        self.assertIn("--hosts", self.run_pes(1, RING, options=["--meet", "127.0.0.1:7772"], expect=USAGE).stderr)

    def test_a_host_may_name_the_user_of_ssh(self):
        done = self.run_pes(2, RING, options=["--hosts", "me@localhost,me@localhost", "--launcher", "sh -c {command}"])
        self.assertEqual(done.stdout, "2 PEs, 3 rounds: the token is 6\n", done.stderr)

    def test_kept_survivors_of_another_host_go_on(self):
        done = self.run_pes(2, *SH, 'test $TOWPATH_SHMEM_PE = 1 && exit 3; sleep 4; echo done', expect=3,
                            options=["--keep", "--grace", "0", "--hosts", "a,b", "--launcher", "sh -c {command}"])
        self.assertEqual(done.stdout, "done\n", done.stderr)

    def test_a_launcher_that_leaves_the_command_out_is_refused(self):
        for launcher in ("true", "ssh {host} sh -c '{command}'", ""):
            with self.subTest(launcher):
                done = self.run_pes(2, "false", options=["--hosts", "a,b", "--launcher", launcher], expect=USAGE)
                self.assertIn("has no word {command}", done.stderr)

    def test_a_pe_that_never_begins_is_named(self):
        done = self.run_pes(2, *SH, f'test $TOWPATH_SHMEM_PE = 1 && exec sleep 100; exec {RING}',
                            options=["--start-timeout", "1", "--grace", "0"], expect=COULD_NOT_RUN)
        self.assertIn("these PEs have not begun: 1", done.stderr)

    def test_an_interrupt_ends_all(self):
        job = subprocess.Popen([towpath_command.COMMAND, "run", "-n", "2", "--", *SH, "echo here; exec sleep 100"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=take_signals)
        self.assertEqual([job.stdout.readline() for _ in range(2)], ["here\n"] * 2)
        job.send_signal(signal.SIGINT)
        _, errors = job.communicate(timeout=WATCHDOG_S)
        self.assertEqual(job.returncode, 130)
        self.assertIn("signal 2", errors)

    def test_a_job_under_nohup_outlives_its_terminal(self):
        job = subprocess.Popen([towpath_command.COMMAND, "run", "-n", "1", "--", *SH, "echo here; read go; echo done"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertEqual(job.stdout.readline(), "here\n")
        job.send_signal(signal.SIGHUP)
        self.assertEqual(job.communicate("go\n", timeout=WATCHDOG_S), ("done\n", ""))
        self.assertEqual(job.returncode, 0)

    def test_pes_die_with_their_launcher(self):
        job = subprocess.Popen([towpath_command.COMMAND, "run", "-n", "1", "--", *SH, "echo $$; exec sleep 100"],
                               stdout=subprocess.PIPE, text=True)
        pe = int(job.stdout.readline())
        job.kill()
        job.communicate(timeout=WATCHDOG_S)
        end = time.monotonic() + WATCHDOG_S
        while os.path.exists(f"/proc/{pe}/stat") and time.monotonic() < end:
            with open(f"/proc/{pe}/stat") as stat:
                if stat.read().split()[2] == "Z":  # nobody may be there to reap it
                    break
        self.assertLess(time.monotonic(), end)

    def test_heaps_in_huge_pages_and_on_nodes(self):
        for options in (["--huge-pages", "best_effort"], ["--numa", "0"]):
            self.assertEqual(self.run_pes(2, RING, options=options).stdout, "2 PEs, 3 rounds: the token is 6\n")
        done = self.run_pes(3, *SH, "echo $TOWPATH_SHMEM_PE $TOWPATH_SHMEM_NODE", options=["--numa", "0,0"])
        self.assertEqual(sorted(done.stdout.splitlines()), [f"{pe} 0" for pe in range(3)])
        self.assertIn("no NUMA node 999", self.run_pes(1, RING, options=["--numa", "0,999"], expect=COULD_NOT_RUN).stderr)
        self.assertIn("no whole huge pages", self.run_pes(
            1, RING, options=["--huge-pages", "required", "--heap", "5000"], expect=USAGE).stderr)

    def test_what_cannot_be_run_is_reported(self):
        self.assertIn("no-such-program", self.run_pes(2, "./no-such-program", expect=COULD_NOT_RUN).stderr)
        self.run_command("run", "-n", "0", "--", "true", expect=USAGE)
        self.run_command("run", "--", "true", expect=USAGE)

    def test_nothing_is_left_behind(self):
        before = set(os.listdir("/dev/shm"))
        done = self.run_pes(3, *SH, f'echo $$; test $TOWPATH_SHMEM_PE = 0 || kill -9 $$; exec {RING}', expect=137)
        self.assertEqual([name for name in set(os.listdir("/dev/shm")) - before if "shmem" in name], [])
        pes = re.findall(r"^\d+$", done.stdout, re.M)
        self.assertEqual(len(pes), 3, done.stdout)
        self.assertFalse(any(namespaces.runs(pe) for pe in pes), "it outlives the launcher")


if __name__ == "__main__":
    towpath_command.main()
