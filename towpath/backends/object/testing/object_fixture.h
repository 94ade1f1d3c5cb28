// What the tests of the whole backend share: a backend in front of a store that checks signatures,
// with a proxy between them. For tests only.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/backend/registry.h>
#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/object/object_backend.h>
#include <towpath/backends/object/store.h>
#include <towpath/backends/object/testing/fault_proxy.h>
#include <towpath/backends/object/testing/swift.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/clock.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::backends::object::testing {

/// Of the process: it starts with the first test that needs it.
inline const Swift& swift() {
  static const Swift* const kOne = new Swift();
  return *kOne;
}

class ObjectFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Swift::is_installed()) GTEST_SKIP() << kNoSwift;
    proxy = std::make_unique<FaultProxy>(swift().port());
    store = *Store::open(*BackendOptions::parse(swift().params()), clock);
    const Code made = store->make_bucket(kBucket).code();
    ASSERT_TRUE(made == Code::ok || made == Code::already_exists) << name_of(made);
    for (std::size_t i = 0; i < memory.size(); ++i)
      memory[i] = static_cast<std::byte>(i * 31 % 253);
    open();
  }
  void TearDown() override {
    objects.clear();
    local.reset();
    operation.reset();
    connection.reset();
    backend.reset();
  }

  /// Anew, with these parameters in place of the usual ones.
  void open(const backend::Params& more = {}) {
    TearDown();
    backend::Params params = more;
    const backend::Params usual = swift().params();
    params.emplace("endpoint_override", proxy->url());
    params.insert(usual.begin(), usual.end());
    backend::Registry registry;
    ASSERT_TRUE(registry.add(object_type()).ok());
    auto opened = registry.open("object", {.self = self,
                                           .clock = agent_clock,
                                           .events = &events,
                                           .log = &log,
                                           .metrics = &metrics,
                                           .params = params});
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    backend = *std::move(opened);
    connection = *backend->connect(self, {});
    operation = backend->make_operation();
    local =
        *backend->register_memory({.address = address_of(memory.data()), .length = memory.size()});
  }

  /// An object of this test, registered as `size_bytes` long.
  backend::Memory* object(const std::string& key, std::uint64_t size_bytes) {
    const RegionDescriptor region{.kind = MemoryKind::object,
                                  .length = size_bytes,
                                  .device_id = objects.size() + 1,
                                  .key = own(key)};
    auto registered = backend->register_memory(region);
    EXPECT_TRUE(registered.ok()) << registered.status().to_string();
    if (!registered.ok()) return nullptr;
    auto imported = backend->import_memory(*connection, region, (*registered)->key());
    EXPECT_TRUE(imported.ok()) << imported.status().to_string();
    objects.push_back(*std::move(registered));
    objects.push_back(*std::move(imported));
    return objects.back().get();
  }
  static std::string own(const std::string& key) {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    return cat(test->name(), "/", key);
  }
  ObjectName name(const std::string& key) const { return {kBucket, own(key)}; }
  Bytes in_store(const std::string& key) const {
    auto bytes = store->get(name(key));
    return bytes.ok() ? *std::move(bytes) : Bytes();
  }

  backend::Segment segment(backend::Memory* object, std::uint64_t place, std::uint64_t length,
                           std::uint64_t address = 0) {
    return {.local = local.get(),
            .remote = object,
            .local_address = address_of(memory.data()) + address,
            .remote_address = place,
            .length = length};
  }

  void pump() {
    proxy->pump();
    backend->progress();
  }
  void post(TransferOp op, std::vector<backend::Segment> of) {
    segments = std::move(of);
    operation->post({op, connection.get(), segments});
  }
  backend::testing::RecordedCompletion finish() {
    EXPECT_TRUE(run::eventually([&] {
      pump();
      return events.count(*operation) > 0;
    })) << "it never ended";
    if (events.count(*operation) == 0) return {};
    auto outcome = events.last(*operation);
    events.completions.clear();
    return outcome;
  }
  backend::testing::RecordedCompletion read(std::vector<backend::Segment> of) {
    post(TransferOp::read, std::move(of));
    return finish();
  }
  backend::testing::RecordedCompletion write(std::vector<backend::Segment> of) {
    post(TransferOp::write, std::move(of));
    return finish();
  }
  std::uint64_t counted(const std::string& metric) const {
    std::uint64_t sum = 0;
    for (const telemetry::Metric& each : metrics.snapshot())
      if (each.name == metric && std::holds_alternative<std::uint64_t>(each.value))
        sum += std::get<std::uint64_t>(each.value);
    return sum;
  }

  const AgentIdentity self{"me", 7};
  sys::SystemClock clock;
  const Clock* agent_clock = &clock;  // what the backend believes
  telemetry::CollectingSink log;
  telemetry::Metrics metrics;
  backend::testing::RecordingEvents events;
  Bytes memory = Bytes(2 * kMiB);
  std::vector<backend::Segment> segments;
  std::unique_ptr<Store> store;
  std::unique_ptr<FaultProxy> proxy;
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<backend::Connection> connection;
  std::unique_ptr<backend::Operation> operation;
  std::unique_ptr<backend::Memory> local;
  std::vector<std::unique_ptr<backend::Memory>> objects;
};

}  // namespace towpath::backends::object::testing
