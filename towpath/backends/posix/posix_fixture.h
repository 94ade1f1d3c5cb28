// What the tests of the whole backend share: a backend over a real file, driven by its wait_fd().
// For tests only.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <towpath/backend/registry.h>
#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/posix/posix_backend.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/telemetry/event_sink.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::backends::posix {

/// Why a test of direct files is skipped: they lie in /var/tmp, as /tmp may be memory.
inline constexpr const char* kNoDirect = "/var/tmp takes no O_DIRECT: mount a disk there";

class PosixFixture {
 public:
  explicit PosixFixture(backend::Params params) {
    backend::Registry registry;
    if (!registry.add(posix_type()).ok()) std::abort();
    auto opened = registry.open("posix", {.self = self,
                                          .clock = &clock,
                                          .events = &events,
                                          .log = &log,
                                          .metrics = &metrics,
                                          .params = std::move(params)});
    if (!opened.ok()) {
      ADD_FAILURE() << opened.status().to_string();
      return;
    }
    backend = std::move(*opened);
    connection = std::move(*backend->connect(self, {}));
  }

  /// Page-aligned, registered as `local`.
  void use_memory(std::uint64_t size_bytes) {
    local.reset();
    mapping = std::move(*sys::Mapping::anonymous(size_bytes));
    memory = mapping.bytes();
    local = std::move(
        *backend->register_memory({.address = address_of(memory.data()), .length = size_bytes}));
  }
  /// Registers `fd` and imports it from ourselves, as an agent does.
  void use_file(int fd, std::uint64_t length) {
    imported.reset();
    registered.reset();
    RegionDescriptor region{.kind = MemoryKind::disk, .length = length, .fd = fd, .key = "a file"};
    region.device_id = static_cast<std::uint64_t>(fd);
    auto made = backend->register_memory(region);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    registered = std::move(*made);
    auto import = backend->import_memory(*connection, region, registered->key());
    ASSERT_TRUE(import.ok()) << import.status().to_string();
    imported = std::move(*import);
  }
  backend::Segment segment(std::uint64_t at, std::uint64_t offset, std::uint64_t length) const {
    return {local.get(), imported.get(), address_of(memory.data()) + at, offset, length};
  }

  /// Until `operation` has completed `times` times. Sleeps only on wait_fd().
  void run(backend::Operation& operation, std::size_t times = 1) {
    while (events.count(operation) < times) {
      if (backend->progress()) continue;
      pollfd ready{backend->wait_fd(), POLLIN, 0};
      ASSERT_GT(::poll(&ready, 1, 20'000), 0) << "nothing woke us for 20 s";
    }
  }
  backend::testing::RecordedCompletion move(TransferOp op,
                                            const std::vector<backend::Segment>& segments) {
    auto operation = backend->make_operation();
    operation->post({op, connection.get(), segments});
    run(*operation);
    auto outcome = events.last(*operation);
    events.completions.clear();
    return outcome;
  }
  backend::testing::RecordedCompletion read(const std::vector<backend::Segment>& segments) {
    return move(TransferOp::read, segments);
  }
  backend::testing::RecordedCompletion write(const std::vector<backend::Segment>& segments) {
    return move(TransferOp::write, segments);
  }

  const AgentIdentity self{"prefill-0", 7};
  sys::SystemClock clock;
  telemetry::CollectingSink log;
  telemetry::Metrics metrics;
  backend::testing::RecordingEvents events;
  sys::Mapping mapping;
  ByteSpan memory;
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<backend::Connection> connection;
  std::unique_ptr<backend::Memory> local, registered, imported;
};

/// Bytes that differ from place to place and seed to seed; whole words.
inline void fill(ByteSpan bytes, std::uint64_t seed) {
  std::uint64_t state = seed * 2 + 1;
  for (std::size_t at = 0; at + sizeof state <= bytes.size(); at += sizeof state) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    std::memcpy(bytes.data() + at, &state, sizeof state);
  }
}

}  // namespace towpath::backends::posix
