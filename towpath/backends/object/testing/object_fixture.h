// What the tests of the whole backend share: a backend in front of a store that checks signatures,
// with a proxy between them. For tests only.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/backend/testing/backend_stand.h>
#include <towpath/backends/object/object_backend.h>
#include <towpath/backends/object/store.h>
#include <towpath/backends/object/testing/fault_proxy.h>
#include <towpath/backends/object/testing/swift.h>
#include <towpath/run/eventually.h>

namespace towpath::backends::object::testing {

/// Of the process: it starts with the first test that needs it.
inline const Swift& swift() {
  static const Swift* const kOne = new Swift();
  return *kOne;
}

class ObjectFixture : public ::testing::Test, protected backend::testing::BackendStand {
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
    operation.reset();
    close();
  }

  /// Anew, with these parameters in place of the usual ones.
  void open(const backend::Params& more = {}) {
    TearDown();
    backend::Params params = more;
    const backend::Params usual = swift().params();
    params.emplace("endpoint_override", proxy->url());
    params.insert(usual.begin(), usual.end());
    const Status opened = BackendStand::open(object_type(), std::move(params));
    ASSERT_TRUE(opened.ok()) << opened.to_string();
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
    const Status used = use(region);
    EXPECT_TRUE(used.ok()) << used.to_string();
    if (!used.ok()) return nullptr;
    objects.push_back(std::move(registered));
    objects.push_back(std::move(imported));
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
  Bytes memory = Bytes(2 * kMiB);
  std::vector<backend::Segment> segments;
  std::unique_ptr<Store> store;
  std::unique_ptr<FaultProxy> proxy;
  std::unique_ptr<backend::Operation> operation;
  std::vector<std::unique_ptr<backend::Memory>> objects;
};

}  // namespace towpath::backends::object::testing
