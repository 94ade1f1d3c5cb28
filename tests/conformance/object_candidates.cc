// object, held to the contract against a store that checks signatures: whole objects, and large
// ones in parts.
#include <towpath/backend/conformance/candidate.h>
#include <towpath/backends/object/object_backend.h>
#include <towpath/backends/object/store.h>
#include <towpath/backends/object/testing/swift.h>
#include <towpath/core/check.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/random.h>

namespace towpath::backend::conformance {
namespace {

using backends::object::testing::Swift;

/// One server for all cases, from the first one that needs it to the end of the process.
const Swift& swift() {
  static const Swift* const kOne = new Swift();
  return *kOne;
}

class SwiftObjects final : public TestObjects {
 public:
  std::string new_key() override { return cat("pool/", hex(sys::random_u64())); }
  Status put(const std::string& key, ConstByteSpan bytes) override {
    return store().put({backends::object::testing::kBucket, key}, bytes);
  }
  Result<Bytes> get(const std::string& key) override {
    return store().get({backends::object::testing::kBucket, key});
  }

 private:
  backends::object::Store& store() {
    if (!store_) {
      store_ = *backends::object::Store::open(
          *backends::object::BackendOptions::parse(swift().params()), clock_);
      const Code made = store_->make_bucket(backends::object::testing::kBucket).code();
      TOWPATH_CHECK(made == Code::ok || made == Code::already_exists, "no bucket");
    }
    return *store_;
  }

  sys::SystemClock clock_;
  std::unique_ptr<backends::object::Store> store_;
};

}  // namespace

std::vector<Candidate> candidates() {
  const auto registry = [] {
    Registry made;
    TOWPATH_CHECK(
        made.add(backends::object::object_type([]() -> Result<Params> { return swift().params(); }))
            .ok(),
        "two names clash");
    return made;
  };
  Candidate object{.name = "object",
                   .make_registry = registry,
                   .backends = {{"object", {}}},
                   .pairings = {{Store::system, Store::object, true}},
                   .objects = std::make_shared<SwiftObjects>(),
                   .unavailable = Swift::is_installed() ? "" : backends::object::testing::kNoSwift,
                   .no_processes = "the store's objects are those of the agent itself",
                   .no_messages = "object carries none"};
  Candidate parts = object;
  parts.name = "object-parts";
  // Reads and writes of the pools go in parts, several at a time; nothing between is read along.
  parts.backends = {
      {"object", {{"part_bytes", "256K"}, {"multipart_bytes", "512K"}, {"gap_bytes", "4K"}}}};
  return {std::move(object), std::move(parts)};
}

}  // namespace towpath::backend::conformance
