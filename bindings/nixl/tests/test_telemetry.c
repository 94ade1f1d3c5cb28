/* Telemetry as the environment asks for it: what others can read of an agent. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agents.h"

enum { kBytes = 4096 };

static char mine[kBytes], theirs[kBytes];

/* Two agents that know each other. */
struct pair {
  struct side here, there;
};

static struct pair open_pair(void) {
  struct pair pair = {.here = open_side("here", peer_plugin()),
                      .there = open_side("there", peer_plugin())};
  register_bytes(&pair.here, mine, kBytes);
  register_bytes(&pair.there, theirs, kBytes);
  introduce(&pair.here, &pair.there);
  return pair;
}

static void close_pair(struct pair* pair) {
  close_side(&pair->there);
  close_side(&pair->here);
}

/* `here` reads all of `theirs`. */
static void read_all(struct pair* pair) {
  nixl_capi_agent_t agent = pair->here.agent;
  nixl_capi_xfer_dlist_t local = xfer_list(NIXL_CAPI_MEM_DRAM, mine, kBytes);
  nixl_capi_xfer_dlist_t remote = xfer_list(NIXL_CAPI_MEM_DRAM, theirs, kBytes);
  nixl_capi_xfer_req_t made = NULL;
  OK(nixl_capi_create_xfer_req(agent, NIXL_CAPI_XFER_OP_READ, local, remote, "there", &made, NULL));
  CHECK(nixl_capi_post_xfer_req(agent, made, NULL) >= 0);
  OK(status_at_end(agent, made));
  drop(agent, made);
  OK(nixl_capi_destroy_xfer_dlist(local));
  OK(nixl_capi_destroy_xfer_dlist(remote));
}

static bool holds(const char* text, size_t size, const char* wanted) {
  return memmem(text, size, wanted, strlen(wanted)) != NULL;
}

/* The flight recorder of the agent `name` in `directory`: whether it is there and reports `peer`.
 */
static bool is_recorded(const char* directory, const char* name, const char* peer) {
  static char bytes[1 << 20];
  char path[256];
  snprintf(path, sizeof path, "%s/%s.%d.flight", directory, name, (int)getpid());
  FILE* file = fopen(path, "rb");
  if (file == NULL) return false;
  const size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  remove(path);
  return holds(bytes, size, peer);
}

static void goes_where_the_environment_says(void) {
  char directory[] = "/tmp/capi_test_XXXXXX";
  CHECK(mkdtemp(directory) != NULL);
  setenv("NIXL_TELEMETRY_ENABLE", "yes", 1);
  setenv("NIXL_TELEMETRY_DIR", directory, 1);
  struct pair pair = open_pair();
  unsetenv("NIXL_TELEMETRY_ENABLE");
  unsetenv("NIXL_TELEMETRY_DIR");
  read_all(&pair);
  close_pair(&pair);
  CHECK(is_recorded(directory, "here", "there"));
  CHECK(is_recorded(directory, "there", "here"));
  CHECK(rmdir(directory) == 0);
}

static void what_cannot_be_opened_is_left_out(void) {
  setenv("NIXL_TELEMETRY_ENABLE", "1", 1);
  setenv("NIXL_TELEMETRY_DIR", "/proc/no/such/directory", 1);
  struct pair pair = open_pair(); /* the log reports it */
  unsetenv("NIXL_TELEMETRY_DIR");
  read_all(&pair);
  close_pair(&pair);
  unsetenv("NIXL_TELEMETRY_ENABLE");
}

static void a_value_that_makes_no_sense_is_an_error(void) {
  nixl_capi_agent_t agent = NULL;
  setenv("NIXL_TELEMETRY_ENABLE", "perhaps", 1);
  BACKEND(nixl_capi_create_agent("here", &agent));
  unsetenv("NIXL_TELEMETRY_ENABLE");
}

#ifdef TOWPATH_WITH_PROMETHEUS
static struct sockaddr_in local_port(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static int free_port(void) {
  struct sockaddr_in address = local_port(0);
  socklen_t size = sizeof address;
  const int any = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(bind(any, (struct sockaddr*)&address, sizeof address) == 0);
  CHECK(getsockname(any, (struct sockaddr*)&address, &size) == 0);
  close(any);
  return ntohs(address.sin_port);
}

/* What a scraper gets, until `wanted` is in it. */
static bool is_scraped(int port, const char* wanted) {
  static char answer[1 << 20];
  static const char kAsk[] = "GET /metrics HTTP/1.0\r\n\r\n";
  const struct sockaddr_in address = local_port(port);
  const int scraper = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  size_t size = 0;
  ssize_t got = -1;
  if (connect(scraper, (const struct sockaddr*)&address, sizeof address) == 0 &&
      send(scraper, kAsk, strlen(kAsk), MSG_NOSIGNAL) > 0)
    while (!holds(answer, size, wanted) &&
           (got = recv(scraper, answer + size, sizeof answer - size, 0)) > 0)
      size += (size_t)got;
  close(scraper);
  return holds(answer, size, wanted);
}

static void metrics_are_served_where_the_environment_says(void) {
  const int port = free_port();
  char text[16];
  snprintf(text, sizeof text, "%d", port);
  setenv("NIXL_TELEMETRY_ENABLE", "y", 1);
  setenv("NIXL_TELEMETRY_EXPORTER", "prometheus", 1);
  setenv("NIXL_TELEMETRY_PROMETHEUS_PORT", text, 1);
  struct pair pair = open_pair(); /* the second of the process finds the port taken */
  unsetenv("NIXL_TELEMETRY_ENABLE");
  unsetenv("NIXL_TELEMETRY_EXPORTER");
  unsetenv("NIXL_TELEMETRY_PROMETHEUS_PORT");
  read_all(&pair);
  CHECK(is_scraped(port, "agent_rx_bytes_total{agent_name=\"here\""));
  close_pair(&pair);
}
#endif

const struct test_case telemetry_cases[] = {
    {"telemetry.goes_where_the_environment_says", goes_where_the_environment_says},
    {"telemetry.what_cannot_be_opened_is_left_out", what_cannot_be_opened_is_left_out},
    {"telemetry.a_value_that_makes_no_sense_is_an_error", a_value_that_makes_no_sense_is_an_error},
#ifdef TOWPATH_WITH_PROMETHEUS
    {"telemetry.metrics_are_served_where_the_environment_says",
     metrics_are_served_where_the_environment_says},
#endif
    {NULL, NULL}};
