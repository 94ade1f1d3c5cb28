"""`towpath trace`: what is made is the same each time, what is broken is named by place."""
import json

from towpath_command import COULD_NOT_RUN, CommandTest, FOUND_WRONG, USAGE, main

GOOD = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n'


class TraceGenerateTest(CommandTest):
    def generate(self, *words):
        return self.run_command("trace", "generate", "--requests", 50, *words).stdout

    def test_the_same_options_give_the_same_bytes(self):
        made = self.generate()
        self.assertEqual(len(made.splitlines()), 50)
        self.assertEqual(made, self.generate())
        self.assertNotEqual(made, self.generate("--seed", 2))

    def test_a_file_holds_what_standard_output_gets(self):
        self.assertEqual(self.generate("-o", "trace.jsonl"), "")
        self.assertEqual((self.folder / "trace.jsonl").read_text(), self.generate())

    def test_every_line_is_json_in_order_of_time(self):
        requests = [json.loads(line) for line in self.generate().splitlines()]
        for request in requests:
            self.assertEqual(len(request["hash_ids"]), -(-request["input_length"] // 512))
        times = [request["timestamp"] for request in requests]
        self.assertEqual(times, sorted(times))

    def test_options_change_what_they_say(self):
        def tokens(made):
            return sum(json.loads(line)["input_length"] for line in made.splitlines())
        self.assertLess(tokens(self.generate("--length-scale", 0.1)), tokens(self.generate()) / 2)
        alone = self.generate("--follow-up", 0)
        self.assertNotEqual(alone, self.generate("--follow-up", 1))

    def test_numbers_that_make_no_sense_are_usage(self):
        for words in (["--requests", "-5"], ["--requests", 0], ["--seed", 2**64], ["--seed", "1x"],
                      ["--follow-up", 1.5], ["--length-scale", 0]):
            with self.subTest(words):
                self.run_command("trace", "generate", *words, expect=USAGE)

    def test_what_cannot_be_written_is_reported(self):
        for place in ("missing/trace.jsonl", "/dev/full"):
            done = self.run_command("trace", "generate", "-o", place, expect=COULD_NOT_RUN)
            self.assertIn(place, done.stderr)


class TraceInfoTest(CommandTest):
    def write(self, text):
        (self.folder / "trace.jsonl").write_text(text)

    def info(self, *words, **options):
        return self.run_command("trace", "info", "trace.jsonl", *words, **options)

    def test_figures_are_those_of_the_trace(self):
        self.write(GOOD + GOOD.replace("[1, 2]", "[1, 3]").replace('p": 0', 'p": 3000'))
        reported = json.loads(self.info("--json", "-").stdout)
        self.assertEqual(reported["requests"], 2)
        self.assertEqual(reported["duration_s"], 3)
        self.assertEqual(reported["block_references"], 4)
        self.assertEqual(reported["distinct_blocks"], 3)
        self.assertEqual(reported["infinite_cache_hit_ratio"], 0.25)
        self.assertEqual(reported["blocks_per_request"]["histogram"],
                         [{"low": 2, "high": 3, "requests": 2}])
        table = self.info().stdout
        self.assertRegex(table, r"requests +2\n")
        self.assertRegex(table, r"hit ratio +25\.0 %")
        self.assertRegex(table, r"2-3 +2  #+\n")

    def test_the_histogram_counts_every_request(self):
        self.run_command("trace", "generate", "--requests", 300, "-o", "trace.jsonl")
        reported = json.loads(self.info("--json", "info.json").stdout and
                          (self.folder / "info.json").read_text())
        buckets = reported["blocks_per_request"]["histogram"]
        self.assertEqual(sum(bucket["requests"] for bucket in buckets), 300)
        self.assertGreater(len(buckets), 3)

    def test_an_empty_trace_has_no_requests(self):
        self.write("")
        self.assertRegex(self.info().stdout, r"requests +0\n")

    def test_figures_of_any_size_are_what_they_are(self):
        most = 2**64 - 1
        self.write((GOOD + GOOD.replace('p": 0', f'p": {most}')).replace("600", str(most)).replace(": 5", f": {most}"))
        table = self.info().stdout
        self.assertRegex(table, r"duration +18,446,744,073,709,55\d s\n")
        self.assertRegex(table, r"prompt, mean +1\.?844674407370955")
        reported = json.loads(self.info("--json", "-").stdout)
        self.assertEqual(reported["prompt_tokens"]["mean"], float(most))
        self.assertEqual(reported["output_tokens"]["mean"], float(most))

    def test_what_is_broken_is_named_by_file_line_and_column(self):
        self.write(GOOD * 2 + GOOD.replace('"input', "garbage"))
        done = self.info("--json", "-", expect=FOUND_WRONG)
        self.assertEqual(done.stdout, "")
        self.assertIn("trace.jsonl, line 3, column 18: expected '\"'", done.stderr)
        self.assertIn("hint:", done.stderr)

    def test_each_format_is_known_by_its_first_line(self):
        bailian = GOOD.replace("{", '{"chat_id": 3, "turn": 1, ').replace(": 0,", ": 0.25,")
        azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97996,600,5\n"
        burstgpt = "Timestamp,Model,Request tokens,Response tokens\n5,ChatGPT,600,5\n"
        for name, text, tokens in (("mooncake", GOOD, 512), ("bailian", bailian, 16),
                                   ("azure", azure, 512), ("burstgpt", burstgpt, 512)):
            with self.subTest(name):
                self.write(text)
                reported = json.loads(self.info("--json", "-").stdout)
                self.assertEqual((reported["format"], reported["tokens_per_block"], reported["requests"],
                                  reported["block_references"], reported["prompt_tokens"]["max"]),
                                 (name, tokens, 1, 2, 600))
                self.assertEqual(reported["names_blocks"], name in ("mooncake", "bailian"))
        self.assertIn("line 1, column 1: expected '{'",
                      self.info("--format", "bailian", expect=FOUND_WRONG).stderr)
        self.assertIn("burstgpt", self.info("--format", "csv", expect=USAGE).stderr)

    def test_bytes_that_are_no_text_are_refused(self):
        (self.folder / "trace.jsonl").write_bytes(bytes(range(256)) * 16)
        self.assertIn("line 1, column 1", self.info(expect=FOUND_WRONG).stderr)

    def test_a_file_that_is_not_there_is_no_broken_trace(self):
        done = self.info(expect=COULD_NOT_RUN)
        self.assertIn("trace.jsonl", done.stderr)
        self.assertIn("towpath trace generate", done.stderr)


if __name__ == "__main__":
    main()
