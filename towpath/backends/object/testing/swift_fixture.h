// A suite of tests that share a Swift, with the bucket of the tests in it. For tests only.
#pragma once

#include <memory>

#include <gtest/gtest.h>

#include <towpath/backends/object/options.h>
#include <towpath/backends/object/store.h>
#include <towpath/backends/object/testing/swift.h>
#include <towpath/sys/clock.h>

namespace towpath::backends::object::testing {

/// `Suite` is the suite's own class: it has a Swift of its own, for as long as its tests run.
template <class Suite>
class SwiftFixture : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (Swift::is_installed()) swift_ = std::make_unique<Swift>();
  }
  static void TearDownTestSuite() { swift_.reset(); }

  void SetUp() override {
    if (!swift_) GTEST_SKIP() << kNoSwift;
    store_ = *Store::open(*BackendOptions::parse(swift_->params()), store_clock_);
    const Code made = store_->make_bucket(kBucket).code();
    ASSERT_TRUE(made == Code::ok || made == Code::already_exists) << name_of(made);
  }

  static inline std::unique_ptr<Swift> swift_;
  sys::SystemClock store_clock_;
  std::unique_ptr<Store> store_;
};

}  // namespace towpath::backends::object::testing
