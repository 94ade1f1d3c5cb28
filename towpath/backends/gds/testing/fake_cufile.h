// What tests may ask of the fake libcufile: the functions of fake_cufile.cc, found in the library.
// Thread: any.
#pragma once

#include <cstdint>

#include <towpath/device/stream.h>
#include <towpath/sys/dynamic_library.h>

namespace towpath::backends::gds::testing {

class FakeCufile {
 public:
  /// The library that this build made.
  static const char* path() noexcept { return TOWPATH_FAKE_CUFILE; }

  FakeCufile() : library_(sys::DynamicLibrary::open(path()).value()) {
    call("reset");
    set_launch(reinterpret_cast<void*>(&launch_on_host));
  }
  ~FakeCufile() { call("reset"); }
  FakeCufile(const FakeCufile&) = delete;
  FakeCufile& operator=(const FakeCufile&) = delete;

  /// The next call of `symbol` answers so, and does nothing; or the one after `skip`.
  void fail_next(const char* symbol, int answer, int skip = 0) const {
    find<void (*)(const char*, int, int)>("towpath_fake_cufile_fail")(symbol, answer, skip);
  }
  /// Files go straight; else only by compat mode, where it is allowed.
  void set_direct(bool direct) const { set("direct", direct ? 1 : 0); }
  /// I/Os move at most so many bytes at once; 0: as many as asked for.
  void set_longest(std::uint64_t bytes) const { set("longest", bytes); }
  /// As cuFileGetVersion() says it, 1150 at first: the counters are as that version has them.
  void set_version(std::uint64_t version) const { set("version", version); }
  /// Flags of control that its configuration sets.
  void set_configured(std::uint64_t flags) const { set("configured", flags); }
  /// Somebody else in the process has started the driver.
  void set_started(bool started) const { set("started", started ? 1 : 0); }
  /// What puts a function into a stream, as cuLaunchHostFunc does; at first: that of host devices.
  void set_launch(const void* function) const {
    set("launch", reinterpret_cast<std::uint64_t>(function));
  }
  /// Every entry of a batch but the first is said to have failed.
  void set_broken_batches(bool broken) const { set("broken_batches", broken ? 1 : 0); }

  std::uint64_t open_files() const { return get("files"); }
  std::uint64_t registered_buffers() const { return get("buffers"); }
  std::uint64_t drivers() const { return get("drivers"); }
  std::uint64_t batches() const { return get("batches"); }
  std::uint64_t registered_streams() const { return get("streams"); }
  /// I/Os that went into streams.
  std::uint64_t given() const { return get("given"); }
  /// What the library found wrong in the arguments of calls so far; empty: nothing.
  const char* complaints() const {
    return find<const char* (*)()>("towpath_fake_cufile_complaints")();
  }

 private:
  static int launch_on_host(void* stream, void (*function)(void*), void* argument) {
    const auto work = [function, argument] { function(argument); };
    return static_cast<device::Stream*>(stream)->run(work).ok() ? 0 : 1;
  }
  template <typename Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(library_.find(name));
  }
  void call(const char* what) const { set(what, 0); }
  void set(const char* what, std::uint64_t value) const {
    find<void (*)(const char*, std::uint64_t)>("towpath_fake_cufile_set")(what, value);
  }
  std::uint64_t get(const char* what) const {
    return find<std::uint64_t (*)(const char*)>("towpath_fake_cufile_get")(what);
  }

  sys::DynamicLibrary library_;
};

}  // namespace towpath::backends::gds::testing
