// `towpath doctor`: what this machine can do for moving bytes, why not more, and what would help.
// It prints findings: of the machine, of every backend there is, and whether each can be opened;
// and at the end a proof for files. It knows no backend by name.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include <towpath/core/format.h>
#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/probe.h>
#include <towpath/shmem/nvshmem/nvshmem.h>
#include <towpath/standard/settings.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/direct_storage.h>
#include <towpath/sys/machine.h>

#include "tools/command.h"
#include "tools/doctor/settings.h"
#include "tools/doctor/truth.h"
#include "tools/output.h"
#include "tools/table.h"

namespace towpath::tools {
namespace {

struct DoctorOptions {
  std::vector<std::string> directories;
  std::vector<std::string> required;  ///< backends that must open
  std::string json;
  bool settings = false;  ///< nothing but these
};

constexpr const char* kFooter =
    R"(Nothing that stays is changed. Verdicts: yes; degraded: it works, with a loss that is
reported; no; unknown: it could not be found out. The worst stands first.

Exit status: 0 whatever is found; 1 when a backend named by --require cannot be opened.

Examples:
  towpath doctor
  towpath doctor --dir /mnt/nvme0 --dir /mnt/nvme1
  towpath doctor --require shm --require posix --json findings.json
  towpath doctor --settings)";

struct Group {
  std::string title;
  std::string key;      ///< of a group about the machine, for programs
  std::string backend;  ///< of a group about a backend
  std::vector<Finding> findings;
  bool opens = true;
};

/// The proof of a backend: an agent that has it.
Finding try_to_open(const std::string& backend) {
  Finding finding{.question = cat("Can an agent have the backend ", backend, "?"),
                  .signal = "making an agent with it",
                  .source = "this process"};
  const auto node = standard::Node::open(
      {.name = "towpath-doctor", .backends = {backend}, .progress_thread = false});
  finding.verdict = node.ok() ? Verdict::yes : Verdict::no;
  finding.reason = node.ok() ? "it was opened" : story_of(node.status());
  finding.hint = hint_of(node.status());
  return finding;
}

Group examine_direct_storage(const std::vector<std::string>& directories) {
  sys::DirectStorageOptions options{.directories = directories};
  const standard::Environment environment = standard::read_environment();
  if (const auto named = environment.find("CUFILE_ENV_PATH_JSON"); named != environment.end())
    options.configuration = named->second;
  return {.title = "Straight between drives and GPUs: the library, the GPU, the file",
          .key = "direct_storage",
          .findings = sys::findings_of(sys::probe_direct_storage(options))};
}

/// Where a scratch file is made when no directory was named.
constexpr const char* kScratch = "/var/tmp";

/// The first GPU, if there is one.
memory::SharedDevice first_gpu() {
  const auto driver = device::CudaDriver::open();
  const auto device = driver.ok() ? (*driver)->open(0) : driver.status();
  return device.ok() ? *device : nullptr;
}

/// Each backend that moves bytes between files of its own and this memory, put to the proof.
void prove_each(const backend::Registry& registry, Ends ends, const Counter& count, Group& group) {
  const MemoryKind near = ends.device == nullptr ? MemoryKind::system : MemoryKind::device;
  for (const std::string& name : registry.names()) {
    const auto node = standard::Node::open(
        {.name = "towpath-doctor", .backends = {name}, .progress_thread = false});
    const auto can = node.ok() ? (*node)->agent().capabilities(name) : node.status();
    if (!can.ok() || can->pair(near, MemoryKind::disk, TransferOp::read, true) == nullptr) continue;
    ends.backend = name;
    group.findings.push_back(prove(registry, ends, count));
  }
}

Group examine_truth(std::vector<std::string> directories) {
  if (directories.empty()) directories = {kScratch};
  Group group{.title = "The truth: 64 KiB to a scratch file and back", .key = "truth"};
  const backend::Registry registry = standard::make_registry();
  const Counter count = real_counter();
  const memory::SharedDevice gpu = first_gpu();
  for (const std::string& directory : directories) {
    prove_each(registry, {.directory = directory}, count, group);
    if (gpu != nullptr) prove_each(registry, {.directory = directory, .device = gpu}, count, group);
  }
  return group;
}

std::vector<Group> examine(const DoctorOptions& options) {
  sys::SystemFileSystem files;
  std::vector<Group> groups{
      {.title = "This machine",
       .key = "machine",
       .findings = sys::probe_machine(files, options.directories)},
      {.title = "GPUs", .key = "devices", .backend = {}, .findings = device::probe_devices()},
      examine_direct_storage(options.directories),
      {.title = "Symmetric memory of GPUs",
       .key = "nvshmem",
       .backend = {},
       .findings = {shmem::probe_nvshmem()}}};
  const backend::Registry registry = standard::make_registry();
  for (const std::string& name : registry.names()) {
    const backend::BackendType& type = **registry.find(name);
    Group group{.title = cat("Backend ", name, ": ", type.summary), .backend = name};
    if (type.probe) group.findings = type.probe({});
    group.findings.push_back(try_to_open(name));
    group.opens = group.findings.back().verdict == Verdict::yes;
    groups.push_back(std::move(group));
  }
  groups.push_back(examine_truth(options.directories));
  return groups;
}

// For people --------------------------------------------------------------------------------------

Tone tone_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::yes: return Tone::good;
    case Verdict::degraded: return Tone::warning;
    case Verdict::no: return Tone::bad;
    case Verdict::unknown: return Tone::faint;
  }
  return Tone::plain;
}

/// 0 is the worst.
int rank_of(Verdict verdict) {
  constexpr std::array kWorstFirst{Verdict::no, Verdict::unknown, Verdict::degraded, Verdict::yes};
  return static_cast<int>(std::ranges::find(kWorstFirst, verdict) - kWorstFirst.begin());
}

/// What stands in an earlier group already is left out (backends ask the machine again), and the
/// worst comes first.
std::vector<Group> arranged(std::vector<Group> groups) {
  std::set<std::string> reported;
  for (Group& group : groups) {
    std::erase_if(group.findings, [&](const Finding& finding) {
      return !reported.insert(finding.question + '\n' + finding.source).second;
    });
    std::ranges::stable_sort(group.findings, {},
                             [](const Finding& finding) { return rank_of(finding.verdict); });
  }
  return groups;
}

std::string group_text(const Group& group, Colours colours) {
  constexpr std::size_t kShort = 88;  // with the verdict before it, a line of 100
  Table table({{""}, {""}});
  for (const Finding& finding : group.findings) {
    const Cell verdict(std::string(name_of(finding.verdict)), tone_of(finding.verdict));
    const std::string reported = cat(finding.question, " ", finding.reason);
    const bool in_one_line = finding.verdict == Verdict::yes && reported.size() <= kShort;
    table.add({verdict, in_one_line ? reported : finding.question});
    if (!in_one_line) table.note(finding.reason);
    if (!finding.hint.empty()) table.note("hint: " + finding.hint);
  }
  return group.title + "\n" + table.text(colours) + "\n";
}

std::string counted(const std::vector<Group>& groups) {
  std::map<Verdict, std::size_t> counts;
  for (const Group& group : groups) {
    for (const Finding& finding : group.findings) ++counts[finding.verdict];
  }
  return cat(counts[Verdict::yes], " yes, ", counts[Verdict::degraded], " degraded, ",
             counts[Verdict::no], " no, ", counts[Verdict::unknown], " unknown\n");
}

Status print_text(const std::vector<Group>& groups) {
  TOWPATH_TRY(Output out, Output::open("-"));
  const Colours colours = out.is_terminal() ? Colours::yes : Colours::no;
  for (const Group& group : groups) TOWPATH_TRY(out.write(group_text(group, colours)));
  TOWPATH_TRY(out.write(counted(groups)));
  return out.close();
}

// For programs ------------------------------------------------------------------------------------

nlohmann::ordered_json to_json(const Finding& finding) {
  return {{"question", finding.question}, {"signal", finding.signal},
          {"source", finding.source},     {"verdict", name_of(finding.verdict)},
          {"reason", finding.reason},     {"hint", finding.hint}};
}

nlohmann::ordered_json to_json(const std::vector<Group>& groups) {
  nlohmann::ordered_json out{{"machine", nlohmann::ordered_json::array()},
                             {"devices", nlohmann::ordered_json::array()},
                             {"direct_storage", nlohmann::ordered_json::array()},
                             {"truth", nlohmann::ordered_json::array()},
                             {"backends", nlohmann::ordered_json::array()}};
  for (const Group& group : groups) {
    nlohmann::ordered_json findings = nlohmann::ordered_json::array();
    for (const Finding& finding : group.findings) findings.push_back(to_json(finding));
    if (group.backend.empty())
      out[group.key] = std::move(findings);
    else
      out["backends"].push_back(
          {{"name", group.backend}, {"opens", group.opens}, {"findings", std::move(findings)}});
  }
  return out;
}

// -------------------------------------------------------------------------------------------------

/// Real names of the backends that must open. Errors: invalid_argument, with those that exist.
Result<std::set<std::string>> names_of(const std::vector<std::string>& required) {
  const backend::Registry registry = standard::make_registry();
  std::set<std::string> names;
  for (const std::string& name : required) {
    const auto type = registry.find(name);
    if (!type.ok())
      return error(Code::invalid_argument, cat("--require: ", type.status().message()),
                   std::string(type.status().hint()));
    names.insert((*type)->name);
  }
  return names;
}

Result<Exit> examine_and_report(const DoctorOptions& options) {
  if (options.settings) {
    if (!options.required.empty())
      return error(Code::invalid_argument,
                   "with --settings no backend is opened: --require finds none",
                   "leave one of them out");
    if (!options.directories.empty())
      return error(Code::invalid_argument,
                   "with --settings no directory is asked about: --dir has no effect",
                   "leave one of them out");
    TOWPATH_TRY(show_settings(options.json));
    return Exit::ok;
  }
  TOWPATH_TRY(const std::set<std::string> required, names_of(options.required));
  const std::vector<Group> groups = examine(options);
  if (!options.json.empty()) TOWPATH_TRY(write_json(options.json, to_json(groups)));
  if (options.json != "-") TOWPATH_TRY(print_text(arranged(groups)));
  const bool missing = std::ranges::any_of(
      groups, [&](const Group& group) { return !group.opens && required.contains(group.backend); });
  return missing ? Exit::found_wrong : Exit::ok;
}

}  // namespace

void add_doctor(Command& towpath) {
  Command command =
      towpath.add("doctor", "Report what this machine can do for moving bytes, and why");
  const auto options = std::make_shared<DoctorOptions>();
  command
      .option("--dir", options->directories,
              "Also ask about direct I/O in this directory; repeatable")
      .takes("DIR")
      .one_each();
  command.option("--require", options->required, "Fail unless this backend opens; repeatable")
      .takes("BACKEND")
      .one_each();
  command.flag("--settings", options->settings,
               "Show the settings instead: the value of each, and what gives it");
  command.output("--json", options->json, "The same for programs; - is standard output");
  command.footer(kFooter);
  command.when_chosen([options] { return examine_and_report(*options); });
}

}  // namespace towpath::tools
