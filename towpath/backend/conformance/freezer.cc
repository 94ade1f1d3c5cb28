#include <fstream>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

#include <towpath/backend/conformance/freezer.h>
#include <towpath/core/format.h>
#include <towpath/run/eventually.h>

namespace towpath::backend::conformance {

/// What differs between the versions: file names and words.
struct Freezer::Kind {
  const char* mount;
  const char* control;
  const char* freeze;
  const char* thaw;
  const char* state;
  std::string_view frozen;  // is in `state` once all stand still
};

const Freezer::Kind Freezer::kKinds[] = {
    {"/sys/fs/cgroup", "cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"},
    {"/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"},
    {"/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"}};

namespace {

bool put(const std::string& path, std::string_view text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

std::string get(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Result<std::unique_ptr<Freezer>> Freezer::make() {
  static int made = 0;
  for (const Kind& kind : kKinds) {
    const std::string directory = cat(kind.mount, "/towpath-test-", ::getpid(), "-", ++made);
    if (::mkdir(directory.c_str(), 0755) != 0) continue;
    if (::access(cat(directory, "/", kind.control).c_str(), W_OK) == 0)
      return std::unique_ptr<Freezer>(new Freezer(kind, directory));
    ::rmdir(directory.c_str());
  }
  return error(Code::unsupported, "no control group that freezes can be made by this user");
}

Freezer::~Freezer() {
  thaw();
  (void)run::eventually([&] { return ::rmdir(directory_.c_str()) == 0 || errno != EBUSY; });
}

Status Freezer::add(pid_t process) const {
  if (put(directory_ + "/cgroup.procs", std::to_string(process))) return {};
  return error(Code::denied, cat("process ", process, " does not enter ", directory_));
}

Status Freezer::freeze() const {
  const std::string state = cat(directory_, "/", kind_.state);
  const bool frozen =
      put(cat(directory_, "/", kind_.control), kind_.freeze) && run::eventually([&] {
        return get(state).starts_with(kind_.frozen) ||
               get(state).find(kind_.frozen) != std::string::npos;
      });
  if (frozen) return {};
  return error(Code::not_ready, cat(directory_, " does not freeze"));
}

void Freezer::thaw() const { (void)put(cat(directory_, "/", kind_.control), kind_.thaw); }

}  // namespace towpath::backend::conformance
