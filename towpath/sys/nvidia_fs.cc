#include <towpath/core/format.h>
#include <towpath/core/utf8.h>
#include <towpath/sys/nvidia_fs.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {
namespace {

using State = NvidiaFs::State;

NvidiaFs not_loaded(State state, std::string reason) {
  return {.state = state, .stats = {}, .reason = std::move(reason)};
}

NvidiaFs explain(const std::string& path, const Status& why) {
  switch (why.code()) {
    case Code::not_found: return not_loaded(State::absent, "nvidia-fs is not loaded");
    case Code::denied: return not_loaded(State::denied, cat(path, " may not be read"));
    case Code::corrupt: return not_loaded(State::too_long, std::string(why.message()));
    default: return not_loaded(State::unreadable, std::string(why.message()));
  }
}

std::string hint_for(State state) {
  switch (state) {
    case State::loaded: return {};
    case State::denied: return "run as a user who may read it";
    case State::not_built: return "build with -DTOWPATH_WITH_GDS=ON";
    default:
      return "modprobe nvidia-fs (package nvidia-gds), or let the kernel's own P2PDMA do it "
             "(CUDA 12.8, Linux 6.2)";
  }
}

/// " 2.28", from "version: 2.28"; empty where it does not report.
std::string version_of(const MachineRoot& root) {
  const auto text = read_text_file(root.proc + "/driver/nvidia-fs/version");
  const auto version = text.ok() ? line_after(*text, "version:") : std::nullopt;
  return version ? cat(" ", printable(trimmed(*version), 64)) : std::string();
}

/// "nvme: 1.2" in a line of its own.
bool has_hooks_in_nvme(const MachineRoot& root) {
  const auto modules = read_text_file(root.proc + "/driver/nvidia-fs/modules");
  return modules.ok() && line_after(*modules, "nvme:").has_value();
}

}  // namespace

std::optional<std::uint64_t> NvidiaFs::reads() const {
  // "Reads : n=12 ok=12 err=0 ...", tabs for spaces; a second line of that name has rates.
  const auto line = line_after(stats, "Reads");
  const std::size_t at = line ? line->find("n=") : std::string_view::npos;
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view number = line->substr(at + 2);
  return parse_number(number.substr(0, number.find(' ')));
}

NvidiaFs read_nvidia_fs([[maybe_unused]] const MachineRoot& root) {
#ifdef TOWPATH_WITHOUT_GDS
  return not_loaded(State::not_built, "this build has no GPUDirect Storage");
#else
  const std::string path = root.proc + "/driver/nvidia-fs/stats";
  auto text = read_text_file(path, kMaxNvidiaFsStats);
  if (!text.ok()) return explain(path, text.status());
  // The kernel writes ASCII there.
  if (!is_utf8(*text)) return not_loaded(State::not_text, cat(path, " holds no text"));
  if (trimmed(*text).empty()) return not_loaded(State::empty, cat(path, " is empty"));
  return {.state = State::loaded, .stats = *std::move(text), .reason = {}};
#endif
}

Finding probe_nvidia_fs(const MachineRoot& root) {
  const NvidiaFs found = read_nvidia_fs(root);
  Finding finding{
      .question = "Does nvidia-fs take drives to GPUs?",
      .signal = "its version, its statistics, and nvme among the modules with its hooks",
      .source = root.proc + "/driver/nvidia-fs",
      .verdict = Verdict::no,
      .reason = found.reason,
      .hint = hint_for(found.state)};
  if (!found.is_loaded()) return finding;
  const bool nvme = has_hooks_in_nvme(root);
  finding.verdict = nvme ? Verdict::yes : Verdict::no;
  finding.reason = cat("nvidia-fs", version_of(root), " is loaded, ",
                       nvme ? "with hooks in nvme" : "but the nvme driver has no hooks");
  finding.hint = nvme ? "" : "use the nvme driver of MOFED or DOCA, or P2PDMA";
  return finding;
}

}  // namespace towpath::sys
