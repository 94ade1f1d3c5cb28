// The environment of PEs: written by a launcher, read by a PE.
#include <fstream>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/shmem/job.h>
#include <towpath/standard/shmem_start.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::standard {
namespace {

TEST(ShmemEnvironmentTest, the_network_is_what_the_environment_names) {
  using shmem::NetworkEngine;
  EXPECT_EQ(shmem_network({})->engine, std::nullopt);
  EXPECT_EQ(shmem_network({})->ucx.transports, "^tcp") << "its port is not safe";
  EXPECT_EQ(shmem_network({{"UCX_TLS", "rc,tcp"}})->ucx.transports, "") << "UCX reads it itself";
  const auto ucx = shmem_network(shmem_variables_of_network("ucx", "authenticated"));
  EXPECT_EQ(ucx->engine, NetworkEngine::ucx);
  EXPECT_EQ(ucx->ucx.transports, "");
  EXPECT_FALSE(ucx->encrypted);
  EXPECT_TRUE(shmem_network(shmem_variables_of_network("tcp", "tls"))->encrypted);
  const auto by_files =
      shmem_network({{"TOWPATH_SECURITY", "tls"}, {"TOWPATH_TLS_CERT_FILE", "own.pem"}});
  EXPECT_EQ(by_files->certificates.certificate_file, "own.pem");
  EXPECT_EQ(shmem_network({{"TOWPATH_SHMEM_NETWORK", "rdma"}}).code(), Code::invalid_argument);
  EXPECT_EQ(shmem_network({{"TOWPATH_SECURITY", "yes"}}).status().message(),
            "TOWPATH_SECURITY=yes");
}

TEST(ShmemEnvironmentTest, nothing_said_is_alone) {
  const auto bootstrap = shmem_bootstrap({});
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_EQ(bootstrap->pes, 1);
  EXPECT_FALSE(bootstrap->files.has_value());
  EXPECT_EQ(shmem_bootstrap({{"TOWPATH_SHMEM_HEAP", "2M"}})->heap_bytes, 2u << 20U);
  EXPECT_EQ(shmem_bootstrap({{"SHMEM_SYMMETRIC_SIZE", "4M"}})->heap_bytes, 4u << 20U);
  Environment old = {{"SMA_SYMMETRIC_SIZE", "6M"}};
  EXPECT_EQ(shmem_bootstrap(old)->heap_bytes, 6u << 20U);
  old["SHMEM_SYMMETRIC_SIZE"] = "4M";
  EXPECT_EQ(shmem_bootstrap(old)->heap_bytes, 4u << 20U) << "the new name wins";
  EXPECT_FALSE(is_started_by_pmix({}));
  EXPECT_TRUE(is_started_by_pmix({{"PMIX_RANK", "0"}}));
  EXPECT_FALSE(is_started_by_pmix({{"PMIX_RANK", "0"}, {"TOWPATH_SHMEM_JOB", "3,4"}}));
  EXPECT_FALSE(is_started_by_pmix({{"PMIX_RANK", "0"}, {"TOWPATH_SHMEM_MEET", "unix:/meet"}}));
  EXPECT_TRUE(is_started_by_pmix({{"PMIX_RANK", "0"}, {"TOWPATH_SHMEM_MEET", ""}})) << "no place";
}

TEST(ShmemEnvironmentTest, one_of_several_by_another_pmi_is_not_alone) {
  Environment environment = {{"PMI_FD", "11"}, {"PMI_SIZE", "2"}};
  EXPECT_EQ(refuse_other_pmi(environment).code(), Code::unsupported);
  environment["PMI_SIZE"] = "1";
  EXPECT_TRUE(refuse_other_pmi(environment).ok());
  environment["PMI_SIZE"] = "2";
  for (const char* known : {"PMIX_RANK", "TOWPATH_SHMEM_JOB", "TOWPATH_SHMEM_MEET"}) {
    Environment started = environment;
    started[known] = "0";
    EXPECT_TRUE(refuse_other_pmi(started).ok()) << known;
  }
  environment["TOWPATH_SHMEM_MEET"] = "";
  EXPECT_EQ(refuse_other_pmi(environment).code(), Code::unsupported) << "it is none";
}

TEST(ShmemEnvironmentTest, pages_and_nodes_are_asked_for) {
  EXPECT_EQ(shmem_bootstrap({})->pages.huge, sys::HugePages::off);
  EXPECT_FALSE(shmem_bootstrap({})->pages.node.has_value());
  Environment environment = shmem_variables_of_node(1);
  environment["TOWPATH_SHMEM_HUGE_PAGES"] = "required";
  const auto pages = shmem_bootstrap(environment)->pages;
  EXPECT_EQ(pages.huge, sys::HugePages::required);
  EXPECT_EQ(pages.node, 1u);
  environment.merge(shmem_variables("tcp://10.0.0.1:7772", 3));
  environment["TOWPATH_SHMEM_PE"] = "0";
  EXPECT_EQ((*shmem_invitation(environment))->self.pages.node, 1u);
  EXPECT_EQ(shmem_bootstrap({{"TOWPATH_SHMEM_HUGE_PAGES", "many"}}).code(), Code::invalid_argument);
  EXPECT_EQ(shmem_bootstrap({{"TOWPATH_SHMEM_NODE", "near"}}).code(), Code::invalid_argument);
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

TEST(ShmemEnvironmentTest, what_a_user_mistyped_is_not_said_to_want_a_launcher) {
  for (const Environment& mistyped :
       {Environment{{"TOWPATH_SHMEM_HEAP", "much"}}, Environment{{"SHMEM_SYMMETRIC_SIZE", "much"}},
        Environment{{"TOWPATH_SHMEM_NODE", "near"}},
        Environment{{"TOWPATH_SHMEM_NETWORK", "rdma"}}}) {
    const std::string reported = shmem_bootstrap(mistyped).status().to_string();
    EXPECT_EQ(reported.find("towpath run"), std::string::npos) << reported;
    EXPECT_NE(reported.find("hint"), std::string::npos) << reported;
  }
}

TEST(ShmemEnvironmentTest, a_variable_that_is_empty_is_as_if_it_were_not_there) {
  const auto bootstrap = shmem_bootstrap({{"TOWPATH_SHMEM_HEAP", ""},
                                          {"TOWPATH_SHMEM_HUGE_PAGES", ""},
                                          {"TOWPATH_SHMEM_NODE", ""},
                                          {"SHMEM_SYMMETRIC_SIZE", ""},
                                          {"SMA_SYMMETRIC_SIZE", "6M"}});
  ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().to_string();
  EXPECT_EQ(bootstrap->heap_bytes, 6u << 20U);
  EXPECT_FALSE(bootstrap->pages.node.has_value());
}

TEST(ShmemEnvironmentTest, pes_of_several_hosts_are_invited) {
  auto files = shmem::create_job({.pes = 3, .heap_bytes = 1 << 20, .heaps = 1});
  ASSERT_TRUE(files.ok());
  *files = shmem::spread(*std::move(files), {2}, 3);  // PE 2 is this host's only one
  Environment environment = shmem_variables(*files, 2);
  environment.merge(shmem_variables("tcp://10.0.0.1:7772", 3));
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

/// As where a PE of a job over several hosts starts a job of its own.
TEST(ShmemEnvironmentTest, a_job_of_one_host_is_not_invited_to_another) {
  const auto files = shmem::create_job({.pes = 2, .heap_bytes = 1 << 20});
  ASSERT_TRUE(files.ok());
  Environment environment = shmem_variables(*files, 1);
  environment.merge(shmem_variables_of_one_host());
  environment.merge(shmem_variables("tcp://10.0.0.1:7772", 3));  // what the launcher itself has
  const auto invitation = shmem_invitation(environment);
  ASSERT_TRUE(invitation.ok()) << invitation.status().to_string();
  EXPECT_FALSE(invitation->has_value());
  EXPECT_EQ(shmem_bootstrap(environment)->my_pe, 1);
}

TEST(ShmemEnvironmentTest, an_invitation_leads_to_a_meeting) {
  const auto directory = sys::TemporaryDirectory::create().value();
  const std::string token = cat(directory.path(), "/token");
  std::ofstream(token) << "a secret that all PEs share\n";
  const ShmemInvitation invitation{.place = cat("tcp://10.0.0.1:7772?token-file=", token),
                                   .self = {.my_pe = 1, .pes = 3, .files = {}}};
  const auto options = meeting_of(invitation, std::chrono::seconds(7));
  ASSERT_TRUE(options.ok()) << options.status().to_string();
  EXPECT_EQ(to_string(options->places.front()), "tcp://10.0.0.1:7772");
  EXPECT_EQ(options->token.secret(), "a secret that all PEs share");
  EXPECT_EQ(options->my_pe, 1);
  EXPECT_EQ(options->timeout, std::chrono::seconds(7));
  EXPECT_FALSE(
      meeting_of({.place = "tcp://10.0.0.1:7772?token-file=/nowhere", .self = {}}, {}).ok());
  EXPECT_FALSE(meeting_of({.place = "elsewhere", .self = {}}, {}).ok());
  EXPECT_EQ(meeting_of({.place = "tcp://0.0.0.0:7772", .self = {}}, {}).code(),
            Code::invalid_argument)
      << "others can reach it, and it has no token";
  EXPECT_TRUE(meeting_of({.place = "tcp://127.0.0.1:7772", .self = {}}, {}).ok())
      << "this user's own";
}

}  // namespace
}  // namespace towpath::standard
