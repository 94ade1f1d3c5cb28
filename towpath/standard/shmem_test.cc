// The environment of PEs: written by a launcher, read by a PE; and the meeting of those of several
// hosts.
#include <thread>

#include <gtest/gtest.h>

#include <towpath/core/text.h>
#include <towpath/standard/shmem_environment.h>
#include <towpath/standard/shmem_exchange.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::standard {
namespace {

TEST(ShmemEnvironmentTest, nothing_said_is_alone) {
  const auto bootstrap = shmem_bootstrap({});
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_EQ(bootstrap->pes, 1);
  EXPECT_FALSE(bootstrap->files.has_value());
  EXPECT_EQ(shmem_bootstrap({{"TOWPATH_SHMEM_HEAP", "2M"}})->heap_bytes, 2u << 20U);
}

TEST(ShmemEnvironmentTest, launcher_and_pe_understand_each_other) {
  const auto files = shmem::create_job({.pes = 2, .heap_bytes = 1 << 20});
  for (int pe = 0; pe < 2; ++pe) {
    auto bootstrap = shmem_bootstrap(shmem_variables(*files, pe));
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().to_string();
    EXPECT_EQ(bootstrap->my_pe, pe);
    EXPECT_EQ(bootstrap->files->heaps.size(), 2u);
    EXPECT_TRUE(shmem::JobView::map(bootstrap->files->control.get()).ok());
  }
}

TEST(ShmemEnvironmentTest, what_makes_no_sense_is_refused) {
  const auto code = [](const char* pe, const char* job) {
    return shmem_bootstrap({{"TOWPATH_SHMEM_PE", pe}, {"TOWPATH_SHMEM_JOB", job}}).code();
  };
  EXPECT_EQ(code("0", "1,x"), Code::invalid_argument);
  EXPECT_EQ(code("0", ""), Code::invalid_argument);
  EXPECT_EQ(code("-1", "1"), Code::invalid_argument);
  EXPECT_EQ(code("0", "9999"), Code::not_ready);
  EXPECT_EQ(shmem_bootstrap({{"TOWPATH_SHMEM_HEAP", "much"}}).code(), Code::invalid_argument);
}

TEST(ShmemEnvironmentTest, pes_of_several_hosts_are_invited) {
  auto files = shmem::create_job({.pes = 3, .heap_bytes = 1 << 20, .heaps = 1});
  ASSERT_TRUE(files.ok());
  *files = shmem::spread(*std::move(files), {2}, 3);  // PE 2 is this host's only one
  Environment environment = shmem_variables(*files, 2);
  environment.merge(shmem_variables("tcp://10.0.0.1:7772", 3));
  EXPECT_EQ(shmem_bootstrap(environment).code(), Code::unsupported);

  auto invitation = shmem_invitation(environment);
  ASSERT_TRUE(invitation.ok()) << invitation.status().to_string();
  ASSERT_TRUE(invitation->has_value());
  EXPECT_EQ((*invitation)->place, "tcp://10.0.0.1:7772");
  EXPECT_EQ((*invitation)->self.my_pe, 2);
  EXPECT_EQ((*invitation)->self.pes, 3);
  const auto& heaps = (*invitation)->self.files->heaps;
  ASSERT_EQ(heaps.size(), 3u);
  EXPECT_FALSE(heaps[0] || heaps[1]);
  EXPECT_TRUE(heaps[2]);

  EXPECT_FALSE(shmem_invitation({})->has_value());
  environment.erase("TOWPATH_SHMEM_PES");
  EXPECT_EQ(shmem_invitation(environment).code(), Code::invalid_argument);
}

/// What each PE heard that believes in `believed[pe]` PEs.
std::vector<Result<std::vector<Bytes>>> meet(const std::vector<int>& believed,
                                             Duration patience = std::chrono::seconds(30)) {
  const auto directory = sys::TemporaryDirectory::create().value();
  const std::string place = cat("unix:", directory.path(), "/socket");
  std::vector<Result<std::vector<Bytes>>> heard(believed.size(),
                                                error(Code::internal, "nothing", "none"));
  std::vector<std::thread> pes;
  for (std::size_t pe = 0; pe < believed.size(); ++pe)
    pes.emplace_back([&, pe] {
      ShmemExchange exchange({.place = place,
                              .my_pe = static_cast<int>(pe),
                              .pes = believed[pe],
                              .patience = patience});
      heard[pe] = exchange.all(to_bytes(cat("I am ", pe)));
    });
  for (std::thread& pe : pes) pe.join();
  return heard;
}

TEST(ShmemExchangeTest, all_hear_what_each_said) {
  for (const auto& heard : meet({3, 3, 3})) {
    ASSERT_TRUE(heard.ok()) << heard.status().to_string();
    EXPECT_EQ(*heard, (std::vector{to_bytes("I am 0"), to_bytes("I am 1"), to_bytes("I am 2")}));
  }
}

TEST(ShmemExchangeTest, who_was_told_another_number_is_refused) {
  const auto heard = meet({2, 3});
  EXPECT_TRUE(heard[0].ok()) << heard[0].status().to_string();
  EXPECT_EQ(heard[1].code(), Code::invalid_argument);
}

TEST(ShmemExchangeTest, who_has_not_come_is_named) {
  const auto heard = meet({2}, std::chrono::milliseconds(50));
  EXPECT_EQ(heard[0].code(), Code::timed_out);
  EXPECT_NE(heard[0].status().to_string().find("PE 1 of 2"), std::string::npos);
}

}  // namespace
}  // namespace towpath::standard
