// A /proc, a /sys and a /boot of a test's own. For tests only. Thread: one.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <towpath/sys/machine.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::sys::testing {

class FakeMachineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto directory = TemporaryDirectory::create();
    ASSERT_TRUE(directory.ok());
    directory_ = std::make_unique<TemporaryDirectory>(std::move(*directory));
    root_ = {.proc = path("proc"), .sys = path("sys")};
  }

  std::string path(const std::string& name) const { return directory_->file(name); }
  void put(const std::string& name, std::string_view text) {
    const std::filesystem::path whole = path(name);
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole, std::ios::binary) << text;
  }
  void link(const std::string& name, const std::string& target) {
    const std::filesystem::path whole = path(name);
    std::filesystem::create_directories(whole.parent_path());
    std::filesystem::create_symlink(target, whole);
  }

  std::unique_ptr<TemporaryDirectory> directory_;
  MachineRoot root_;
};

}  // namespace towpath::sys::testing
