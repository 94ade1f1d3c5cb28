#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdio>

#include <ucs/debug/log_def.h>

#include <towpath/core/format.h>
#include <towpath/net/ucx/ucx_library.h>
#include <towpath/sys/dynamic_library.h>

namespace towpath::net {
namespace {

constexpr const char* kSoname = "libucp.so.0";

constexpr std::array<int, 4> kSignals = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
using Handlers = std::array<void (*)(int), kSignals.size()>;

Handlers handlers() {
  Handlers all{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    struct sigaction now {};
    if (::sigaction(kSignals[i], nullptr, &now) == 0) all[i] = now.sa_handler;
  }
  return all;
}

// libucs catches SIGSEGV and others from the moment it is loaded, to print a backtrace. A library
// inside somebody else's program has no business there; whoever loaded UCX before us decides. Later
// ones (1.22) catch none, and complain when told to let go.
void let_go_of_signals(const sys::DynamicLibrary& ucp, const Handlers& before) {
  const auto disable = reinterpret_cast<void (*)(int)>(ucp.find("ucs_debug_disable_signal"));
  if (disable == nullptr) return;
  const Handlers now = handlers();
  for (std::size_t i = 0; i < now.size(); ++i)
    if (now[i] != before[i]) disable(kSignals[i]);
}

extern "C" ucs_log_func_rc_t towpath_ucx_says(const char*, unsigned, const char*,
                                              ucs_log_level_t level,
                                              const ucs_log_component_config_t*,
                                              const char* message, va_list values) {
  if (level != UCS_LOG_LEVEL_ERROR && level != UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_CONTINUE;
  std::array<char, 512> text{};
  (void)std::vsnprintf(text.data(), text.size(), message, values);
  std::fputs(
      cat("UCX ", level == UCS_LOG_LEVEL_ERROR ? "ERROR" : "WARN", " ", text.data(), "\n").c_str(),
      stderr);
  return UCS_LOG_FUNC_RC_STOP;
}

// It prints to standard output, which is the program's: what somebody reads there as JSON would
// begin with UCX's word on a connection that was refused.
void say_to_stderr(const sys::DynamicLibrary& ucp) {
  const auto push =
      reinterpret_cast<decltype(&::ucs_log_push_handler)>(ucp.find("ucs_log_push_handler"));
  if (push != nullptr) push(towpath_ucx_says);
}

}  // namespace

Result<UcxLibrary> UcxLibrary::open() {
  const Handlers before = handlers();
  const auto ucp = sys::DynamicLibrary::open(kSoname);
  if (!ucp.ok())
    return error(ucp.code(), cat("UCX is not here: ", ucp.status().message()),
                 "apt-get install libucx0");
  if (!ucp->was_loaded()) {
    say_to_stderr(*ucp);
    let_go_of_signals(*ucp, before);
  }
  UcxLibrary library;
  const char* missing = nullptr;
#define TOWPATH_UCX_FIND(name)                                               \
  library.name = reinterpret_cast<decltype(library.name)>(ucp->find(#name)); \
  if (library.name == nullptr) missing = #name;
  TOWPATH_UCX_FUNCTIONS(TOWPATH_UCX_FIND)
#undef TOWPATH_UCX_FIND
  if (missing != nullptr) {
    return error(Code::unsupported, cat(kSoname, " has no ", missing),
                 "install UCX 1.13 or a later 1.x");
  }
  return library;
}

}  // namespace towpath::net
