#include "bindings/c/call.h"

#include <new>
#include <string>

#include <gtest/gtest.h>

namespace towpath::c {
namespace {

TEST(TakenTest, what_the_caller_has_no_memory_for_waits_for_the_next_call) {
  Taken<std::string> taken;
  int made = 0;
  const auto take = [&] { return "name " + std::to_string(++made); };
  std::string given;
  const auto run_out = [](const std::string&) -> Status { throw std::bad_alloc(); };
  const auto give = [&](const std::string& name) -> Status { return given = name, Status(); };
  for (int i = 0; i < 2; ++i) EXPECT_THROW((void)taken.pass_on(take, run_out), std::bad_alloc);
  for (const char* name : {"name 1", "name 2"}) {
    EXPECT_TRUE(taken.pass_on(take, give).ok());
    EXPECT_EQ(given, name);
  }
}

}  // namespace
}  // namespace towpath::c
