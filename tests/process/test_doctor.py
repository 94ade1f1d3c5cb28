"""`towpath doctor`: every question is answered, for people and for programs, the same."""
import json
import resource
from pathlib import Path

import towpath_command
from towpath_command import CommandTest, FOUND_WRONG, OK, USAGE, main

VERDICTS = {"yes", "degraded", "no", "unknown"}
FIELDS = {"question", "signal", "source", "verdict", "reason", "hint"}
ABOUT = ["kernel", "io_uring", "pinned", "shared memory", "huge pages", "near which processors",
         "memory of another", "page cache", "How many processors", "How much memory"]


class DoctorTest(CommandTest):
    def findings(self, *words):
        out = json.loads(self.run_command("doctor", "--json", "-", *words).stdout)
        return out["machine"], out["backends"]

    def test_json_answers_every_question_with_a_reason(self):
        machine, backends = self.findings("--dir", self.folder)
        for topic in ABOUT:
            self.assertTrue(any(topic in finding["question"] for finding in machine), topic)
        for finding in [*machine, *(f for backend in backends for f in backend["findings"])]:
            self.assertEqual(set(finding), FIELDS)
            self.assertIn(finding["verdict"], VERDICTS)
            self.assertTrue(finding["reason"], finding)

    def test_settings_and_who_gives_them(self):
        self.environment = {"TOWPATH_LOG_LEVEL": "debug", "NIXL_ETCD_USER": "reader", "TOWPATH_LOGLEVEL": "x",
                            "KVBM_CACHE_HOST_CACHE_SIZE_GB": "4"}
        out = json.loads(self.run_command("doctor", "--settings", "--json", "-").stdout)
        by_name = {setting["name"]: setting for setting in out["settings"]}
        self.assertEqual((by_name["TOWPATH_LOG_LEVEL"]["value"], by_name["TOWPATH_LOG_LEVEL"]["source"]),
                         ("debug", "TOWPATH_LOG_LEVEL"))
        self.assertEqual(by_name["TOWPATH_ETCD_USER"]["source"], "NIXL_ETCD_USER")
        self.assertIsNone(by_name["TOWPATH_TELEMETRY_DIR"]["source"])
        self.assertEqual(by_name["DYN_KVBM_CPU_CACHE_GB"]["source"], "KVBM_CACHE_HOST_CACHE_SIZE_GB")
        self.assertTrue(any("TOWPATH_LOGLEVEL is not known" in warning for warning in out["warnings"]), out["warnings"])
        text = self.run_command("doctor", "--settings").stdout
        self.assertRegex(text, r"TOWPATH_LOG_LEVEL +debug +TOWPATH_LOG_LEVEL\n +what is logged; trace, debug")
        self.assertIn("warning: the variable TOWPATH_LOGLEVEL is not known", text)

    def test_drives_and_gpus_are_three_questions_and_a_way(self):
        out = json.loads(self.run_command("doctor", "--json", "-", "--dir", self.folder).stdout)
        storage = out["direct_storage"]
        for topic in ["libcufile", "GPU's memory can drives see", "nvidia-fs",
                      "Is the file system of", "right on an NVMe drive"]:
            self.assertTrue(any(topic in finding["question"] for finding in storage), topic)
        self.assertRegex(storage[-1]["reason"], r"^(direct \(|compat|unavailable)")

    def test_gpus_are_asked_for_and_a_missing_driver_has_a_hint(self):
        devices = json.loads(self.run_command("doctor", "--json", "-").stdout)["devices"]
        self.assertIn("driver", devices[0]["question"])
        for finding in devices:
            self.assertEqual(set(finding), FIELDS)
            self.assertEqual(finding["verdict"] == "no", bool(finding["hint"]))

    def test_nvshmem_is_looked_for_where_the_loader_looks(self):
        finding, = json.loads(self.run_command("doctor", "--json", "-").stdout)["nvshmem"]
        self.assertEqual(set(finding), FIELDS)
        self.assertIn("libnvshmem_host.so.3", finding["reason"] + finding["source"])
        self.assertEqual(finding["verdict"] == "no", "nvidia-nvshmem" in finding["hint"])

    def test_files_are_put_to_the_proof_and_nothing_stays(self):
        out = json.loads(self.run_command("doctor", "--json", "-", "--dir", self.folder).stdout)
        self.assertTrue(out["truth"])
        for finding in out["truth"]:
            self.assertIn(str(self.folder), finding["question"])
            self.assertIn(finding["verdict"], {"yes", "degraded"}, finding)
            self.assertRegex(finding["reason"], r"the kernel fetched .* from storage")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_every_backend_is_opened_for_proof(self):
        _, backends = self.findings()
        self.assertTrue(backends)
        for backend in backends:
            last = backend["findings"][-1]
            self.assertIn(backend["name"], last["question"])
            self.assertEqual(backend["opens"], last["verdict"] == "yes")
        opened = {backend["name"] for backend in backends if backend["opens"]}
        self.assertLessEqual({"loopback", "posix", "tcp"}, opened, "which need nothing of a machine")

    def test_the_table_reports_what_the_json_reports(self):
        machine, backends = self.findings("--dir", ".")
        table = self.run_command("doctor", "--dir", ".").stdout
        reported = " ".join(table.split())  # long hints are broken into lines
        for finding in [*machine, *(f for backend in backends for f in backend["findings"])]:
            self.assertIn(finding["question"], reported)
            self.assertIn(" ".join(finding["hint"].split()), reported)
        self.assertLessEqual(max(map(len, table.splitlines())), 100, table)
        self.assertNotIn("\x1b", table, "colours are for terminals")

    def test_the_worst_stands_first(self):
        table = self.run_command("doctor", "--dir", self.folder / "missing").stdout
        first = table.splitlines()[1]
        self.assertRegex(first, r"^  (no|unknown) ")

    def test_the_last_line_counts_what_was_printed(self):
        *lines, last = self.run_command("doctor").stdout.splitlines()
        self.assertRegex(last, r"^\d+ yes, \d+ degraded, \d+ no, \d+ unknown$")
        for number, verdict in (part.split() for part in last.split(", ")):
            self.assertEqual(sum(line.startswith(f"  {verdict} ") for line in lines), int(number))

    def test_directories_are_asked_one_by_one(self):
        machine, _ = self.findings("--dir", self.folder, "--dir", self.folder / "missing")
        asked = {f["source"]: f["verdict"] for f in machine if "page cache" in f["question"]}
        self.assertEqual(set(asked), {str(self.folder), str(self.folder / "missing")})
        self.assertEqual(asked[str(self.folder / "missing")], "unknown")
        self.assertEqual(list(self.folder.iterdir()), [], "a probe leaves nothing behind")

    def test_a_starved_process_gets_answers_and_its_required_backend_is_missed(self):
        def starve():  # enough to start, not enough for an agent
            resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
        program = Path(towpath_command.COMMAND).read_bytes()
        if b"__asan_init" in program or b"__tsan_init" in program:
            self.skipTest("a sanitizer takes descriptors of its own")
        self.run_command("version", before=starve)
        table = self.run_command("doctor", before=starve).stdout
        name = self.findings()[1][0]["name"]
        self.assertRegex(table, rf"  no +Can an agent have the backend {name}\?")
        self.run_command("doctor", "--require", name, expect=FOUND_WRONG, before=starve)

    def test_json_goes_to_a_file_beside_the_table(self):
        done = self.run_command("doctor", "--json", "findings.json")
        self.assertIn("This machine", done.stdout)
        self.assertTrue(json.loads((self.folder / "findings.json").read_text())["machine"])

    def test_required_backends_are_found_in_any_case_and_unknown_ones_are_usage(self):
        _, backends = self.findings()
        for backend in backends:
            self.run_command("doctor", "--require", backend["name"].upper(),
                             expect=OK if backend["opens"] else FOUND_WRONG)
        done = self.run_command("doctor", "--require", "pigeon", expect=USAGE)
        self.assertIn(backends[0]["name"], done.stderr)
        for words in (["--require", "shm"], ["--dir", "."]):
            self.assertIn(words[0], self.run_command("doctor", "--settings", *words, expect=USAGE).stderr)


if __name__ == "__main__":
    main()
