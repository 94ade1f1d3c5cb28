/* Agents and their backends. */
#include <stdlib.h>
#include <string.h>

#include "agents.h"

static void agents_come_and_go(void) {
  nixl_capi_agent_t agent = NULL;
  nixl_capi_agent_config_t config = {.enable_prog_thread = false, .capture_telemetry = true};
  CHECK(!nixl_capi_is_stub());
  OK(nixl_capi_create_agent("alone", &agent));
  OK(nixl_capi_destroy_agent(agent));
  OK(nixl_capi_create_configured_agent("alone", &config, &agent));
  OK(nixl_capi_destroy_agent(agent));
  config.enable_prog_thread = config.enable_listen_thread = true;
  config.thread_sync = NIXL_CAPI_THREAD_SYNC_RW;
  config.num_workers = 7;
  OK(nixl_capi_create_configured_agent("a/b:c", &config, &agent));
  OK(nixl_capi_destroy_agent(agent));
}

static void agents_need_a_name(void) {
  const nixl_capi_agent_config_t config = {.enable_prog_thread = true};
  nixl_capi_agent_t agent = NULL;
  BACKEND(nixl_capi_create_agent("", &agent));
  BACKEND(nixl_capi_create_configured_agent("", &config, &agent));
  INVALID(nixl_capi_create_agent(NULL, &agent));
  INVALID(nixl_capi_create_agent("alone", NULL));
  INVALID(nixl_capi_create_configured_agent(NULL, &config, &agent));
  INVALID(nixl_capi_create_configured_agent("alone", NULL, &agent));
  INVALID(nixl_capi_create_configured_agent("alone", &config, NULL));
  INVALID(nixl_capi_destroy_agent(NULL));
  CHECK(agent == NULL);
}

static void ports_that_are_none_are_refused(void) {
  nixl_capi_agent_config_t config = {.enable_listen_thread = true, .listen_port = 65536};
  nixl_capi_agent_t agent = NULL;
  INVALID(nixl_capi_create_configured_agent("alone", &config, &agent));
  config.listen_port = -1;
  INVALID(nixl_capi_create_configured_agent("alone", &config, &agent));
  CHECK(agent == NULL);
  config.enable_listen_thread = false;
  OK(nixl_capi_create_configured_agent("alone", &config, &agent)); /* it is not used */
  OK(nixl_capi_destroy_agent(agent));
}

static void names_may_be_long(void) {
  enum { kLong = 10000, kLongest = 16384 };
  static char name[kLongest + 2];
  memset(name, 'n', kLongest + 1);
  nixl_capi_agent_t none = NULL;
  BACKEND(nixl_capi_create_agent(name, &none));
  CHECK(none == NULL);
  name[kLong] = '\0';
  struct side side = open_side(name, peer_plugin());
  struct side peer = open_side("peer", peer_plugin());
  nixl_capi_notif_map_t map = NULL;
  OK(nixl_capi_create_notif_map(&map));
  introduce(&peer, &side);
  introduce(&side, &peer);
  OK(nixl_capi_gen_notif(peer.agent, name, "to", 2, NULL));
  CHECK(wait_notifications(side.agent, map, "peer", 1));
  OK(nixl_capi_gen_notif(side.agent, "peer", "from", 4, NULL));
  OK(nixl_capi_notif_map_clear(map));
  CHECK(wait_notifications(peer.agent, map, name, 1));
  OK(nixl_capi_destroy_notif_map(map));
  close_side(&peer);
  close_side(&side);
}

static bool lists(nixl_capi_string_list_t plugins, const char* wanted) {
  size_t count = 0;
  OK(nixl_capi_string_list_size(plugins, &count));
  for (size_t i = 0; i < count; ++i) {
    const char* name = NULL;
    OK(nixl_capi_string_list_get(plugins, i, &name));
    if (name != NULL && strcmp(name, wanted) == 0) return true;
  }
  return false;
}

static void plugins_are_listed_by_the_names_that_users_know(void) {
  nixl_capi_agent_t agent = NULL;
  nixl_capi_string_list_t plugins = NULL;
  OK(nixl_capi_create_agent("alone", &agent));
  OK(nixl_capi_get_available_plugins(agent, &plugins));
  CHECK(lists(plugins, "UCX") && lists(plugins, "POSIX") && lists(plugins, "shm"));
  size_t count = 0;
  const char* name = NULL;
  OK(nixl_capi_string_list_size(plugins, &count));
  INVALID(nixl_capi_string_list_get(plugins, count, &name));
  INVALID(nixl_capi_string_list_get(plugins, 0, NULL));
  INVALID(nixl_capi_string_list_get(NULL, 0, &name));
  INVALID(nixl_capi_string_list_size(NULL, &count));
  INVALID(nixl_capi_string_list_size(plugins, NULL));
  INVALID(nixl_capi_get_available_plugins(NULL, &plugins));
  INVALID(nixl_capi_get_available_plugins(agent, NULL));
  OK(nixl_capi_destroy_string_list(plugins));
  INVALID(nixl_capi_destroy_string_list(NULL));
  OK(nixl_capi_destroy_agent(agent));
}

static void plugins_report_their_memory_and_parameters(void) {
  nixl_capi_agent_t agent = NULL;
  nixl_capi_mem_list_t mems = NULL;
  nixl_capi_params_t params = NULL;
  OK(nixl_capi_create_agent("alone", &agent));
  BACKEND(nixl_capi_get_plugin_params(agent, "NOSUCH", &mems, &params));
  INVALID(nixl_capi_get_plugin_params(NULL, "POSIX", &mems, &params));
  INVALID(nixl_capi_get_plugin_params(agent, NULL, &mems, &params));
  INVALID(nixl_capi_get_plugin_params(agent, "POSIX", NULL, &params));
  INVALID(nixl_capi_get_plugin_params(agent, "POSIX", &mems, NULL));
  CHECK(mems == NULL && params == NULL);
  OK(nixl_capi_get_plugin_params(agent, "POSIX", &mems, &params));

  size_t count = 0;
  bool empty = true;
  nixl_capi_mem_type_t first = NIXL_CAPI_MEM_UNKNOWN;
  OK(nixl_capi_mem_list_is_empty(mems, &empty));
  CHECK(!empty);
  OK(nixl_capi_mem_list_size(mems, &count));
  CHECK(count == 2); /* DRAM once, although pinned memory is of this type too, and FILE */
  OK(nixl_capi_mem_list_get(mems, 0, &first));
  CHECK(first == NIXL_CAPI_MEM_DRAM);
  INVALID(nixl_capi_mem_list_get(mems, count, &first));
  INVALID(nixl_capi_mem_list_get(mems, 0, NULL));
  INVALID(nixl_capi_mem_list_get(NULL, 0, &first));
  INVALID(nixl_capi_mem_list_size(NULL, &count));
  INVALID(nixl_capi_mem_list_size(mems, NULL));
  INVALID(nixl_capi_mem_list_is_empty(NULL, &empty));
  INVALID(nixl_capi_mem_list_is_empty(mems, NULL));
  OK(nixl_capi_params_is_empty(params, &empty));
  CHECK(!empty);
  OK(nixl_capi_destroy_mem_list(mems));
  INVALID(nixl_capi_destroy_mem_list(NULL));
  OK(nixl_capi_destroy_params(params));
  OK(nixl_capi_destroy_agent(agent));
}

static void backends_are_created_once(void) {
  nixl_capi_agent_t agent = NULL;
  nixl_capi_params_t params = NULL;
  nixl_capi_backend_t backend = NULL, again = NULL;
  OK(nixl_capi_create_agent("alone", &agent));
  OK(nixl_capi_create_params(&params));
  BACKEND(nixl_capi_create_backend(agent, "NOSUCH", params, &backend));
  INVALID(nixl_capi_create_backend(NULL, "POSIX", params, &backend));
  INVALID(nixl_capi_create_backend(agent, NULL, params, &backend));
  INVALID(nixl_capi_create_backend(agent, "POSIX", NULL, &backend));
  INVALID(nixl_capi_create_backend(agent, "POSIX", params, NULL));
  CHECK(backend == NULL);
  OK(nixl_capi_create_backend(agent, "POSIX", params, &backend));
  BACKEND(nixl_capi_create_backend(agent, "POSIX", params, &again));
  CHECK(again == NULL);
  OK(nixl_capi_destroy_backend(backend));
  INVALID(nixl_capi_destroy_backend(NULL));
  OK(nixl_capi_destroy_params(params));
  OK(nixl_capi_destroy_agent(agent));
}

static void parameters_of_nixls_plugins_are_no_mistakes(void) {
  nixl_capi_agent_t agent = NULL;
  nixl_capi_params_t params = NULL;
  nixl_capi_backend_t backend = NULL;
  OK(nixl_capi_create_agent("alone", &agent));
  OK(nixl_capi_create_params(&params));
  OK(nixl_capi_params_add(params, "use_uring", "true"));
  OK(nixl_capi_params_add(params, "speed", "high"));
  BACKEND(nixl_capi_create_backend(agent, "POSIX", params, &backend)); /* speed is one */
  OK(nixl_capi_destroy_params(params));
  OK(nixl_capi_create_params(&params));
  OK(nixl_capi_params_add(params, "use_uring", "true"));
  OK(nixl_capi_create_backend(agent, "POSIX", params, &backend));
  OK(nixl_capi_destroy_backend(backend));
  OK(nixl_capi_destroy_params(params));
  OK(nixl_capi_destroy_agent(agent));
}

static void backends_report_what_they_run_with(void) {
  struct side side = open_side("alone", "POSIX");
  struct side other = open_side("other", peer_plugin());
  nixl_capi_mem_list_t mems = NULL;
  nixl_capi_params_t params = NULL;
  BACKEND(nixl_capi_get_backend_params(side.agent, other.backend, &mems, &params));
  INVALID(nixl_capi_get_backend_params(NULL, side.backend, &mems, &params));
  INVALID(nixl_capi_get_backend_params(side.agent, NULL, &mems, &params));
  INVALID(nixl_capi_get_backend_params(side.agent, side.backend, NULL, &params));
  INVALID(nixl_capi_get_backend_params(side.agent, side.backend, &mems, NULL));
  CHECK(mems == NULL && params == NULL);
  OK(nixl_capi_get_backend_params(side.agent, side.backend, &mems, &params));
  size_t count = 0;
  bool empty = true;
  OK(nixl_capi_mem_list_size(mems, &count));
  CHECK(count == 2);
  OK(nixl_capi_params_is_empty(params, &empty));
  CHECK(!empty);
  OK(nixl_capi_destroy_mem_list(mems));
  OK(nixl_capi_destroy_params(params));
  close_side(&other);
  close_side(&side);
}

static void plugins_are_loaded_from_a_named_directory(void) {
  nixl_capi_agent_t agent = NULL;
  nixl_capi_string_list_t plugins = NULL;
  setenv("NIXL_PLUGIN_DIR", EXAMPLE_PLUGINS, 1);
  struct side side = {NULL, NULL, NULL};
  OK(nixl_capi_create_agent("alone", &side.agent));
  unsetenv("NIXL_PLUGIN_DIR");
  OK(nixl_capi_get_available_plugins(side.agent, &plugins));
  CHECK(lists(plugins, "example"));
  OK(nixl_capi_destroy_string_list(plugins));
  side.backend = add_backend(side.agent, "example");
  OK(nixl_capi_destroy_backend(side.backend));
  OK(nixl_capi_destroy_agent(side.agent));

  setenv("NIXL_PLUGIN_DIR", "there/is/no/such/directory", 1);
  OK(nixl_capi_create_agent("alone", &agent)); /* the log reports it */
  unsetenv("NIXL_PLUGIN_DIR");
  OK(nixl_capi_get_available_plugins(agent, &plugins));
  CHECK(!lists(plugins, "example"));
  OK(nixl_capi_destroy_string_list(plugins));
  OK(nixl_capi_destroy_agent(agent));
}

/* A configuration file of this text, which the next agents read. */
static const char* configure(const char* text) {
  static char path[] = "/tmp/capi_test.cfg.XXXXXX";
  memcpy(path + strlen(path) - 6, "XXXXXX", 6);
  FILE* file = fdopen(mkstemp(path), "w");
  CHECK(file != NULL);
  fputs(text, file);
  fclose(file);
  setenv("NIXL_CONFIG_FILE", path, 1);
  return path;
}

static void what_no_variable_says_the_configuration_file_does(void) {
  nixl_capi_agent_t agent = NULL;
  nixl_capi_string_list_t plugins = NULL;
  remove(configure("NIXL_PLUGIN_DIR = WARN\n"));
  BACKEND(nixl_capi_create_agent("alone", &agent)); /* it is gone */
  const char* path = configure("NIXL_PLUGIN_DIR = WARN\n");
  BACKEND(nixl_capi_create_agent("alone", &agent)); /* WARN lacks its quotes */
  remove(path);
  path = configure("NIXL_PLUGIN_DIR = \"" EXAMPLE_PLUGINS "\"\n");
  OK(nixl_capi_create_agent("alone", &agent));
  remove(path);
  unsetenv("NIXL_CONFIG_FILE");
  OK(nixl_capi_get_available_plugins(agent, &plugins));
  CHECK(lists(plugins, "example"));
  OK(nixl_capi_destroy_string_list(plugins));
  OK(nixl_capi_destroy_agent(agent));
}

const struct test_case agent_cases[] = {
    {"agent.agents_come_and_go", agents_come_and_go},
    {"agent.agents_need_a_name", agents_need_a_name},
    {"agent.ports_that_are_none_are_refused", ports_that_are_none_are_refused},
    {"agent.names_may_be_long", names_may_be_long},
    {"agent.plugins_are_listed_by_the_names_that_users_know",
     plugins_are_listed_by_the_names_that_users_know},
    {"agent.plugins_report_their_memory_and_parameters",
     plugins_report_their_memory_and_parameters},
    {"agent.backends_are_created_once", backends_are_created_once},
    {"agent.parameters_of_nixls_plugins_are_no_mistakes",
     parameters_of_nixls_plugins_are_no_mistakes},
    {"agent.plugins_are_loaded_from_a_named_directory", plugins_are_loaded_from_a_named_directory},
    {"agent.what_no_variable_says_the_configuration_file_does",
     what_no_variable_says_the_configuration_file_does},
    {"agent.backends_report_what_they_run_with", backends_report_what_they_run_with},
    {NULL, NULL}};
