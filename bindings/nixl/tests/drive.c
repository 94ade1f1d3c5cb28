/* drive DEVICE [refused]: writes extents of an NVMe namespace as NIXL's BLOCK segments and reads them
 * back; or, with `refused`, is not given the namespace at all. What was on it is lost.
 *
 * Started by tests/qemu, on drives that QEMU emulates.
 */
#include "agents.h"

enum { kExtent = 65536, kExtents = 4, kGap = 3 * kExtent, kFirst = 1 << 20 };

int failed_checks = 0;

static unsigned char written[kExtents * kExtent];
static unsigned char read_back[kExtents * kExtent];

/* Of the namespace, as a whole; the word before its path permits writing. */
static nixl_capi_reg_dlist_t namespace_called(const char* device) {
  char path[256];
  nixl_capi_reg_dlist_t list = NULL;
  const int length = snprintf(path, sizeof path, "rw:%s", device);
  CHECK(length > 0 && length < (int)sizeof path);
  OK(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_BLOCK, &list));
  OK(nixl_capi_reg_dlist_add_desc(list, 0, kFirst + kExtents * kGap, 0, path, (size_t)length));
  return list;
}

static nixl_capi_xfer_dlist_t extents(void) {
  nixl_capi_xfer_dlist_t list = NULL;
  OK(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_BLOCK, &list));
  for (uintptr_t i = 0; i < kExtents; ++i)
    OK(nixl_capi_xfer_dlist_add_desc(list, kFirst + i * kGap, kExtent, 0));
  return list;
}

static void move(struct side* side, nixl_capi_xfer_op_t op, unsigned char* bytes) {
  nixl_capi_xfer_dlist_t here = piece_list(bytes, kExtent, kExtents);
  nixl_capi_xfer_dlist_t there = extents();
  nixl_capi_xfer_req_t request = NULL;
  OK(nixl_capi_create_xfer_req(side->agent, op, here, there, "host", &request, side->args));
  CHECK(nixl_capi_post_xfer_req(side->agent, request, side->args) >= 0);
  OK(status_at_end(side->agent, request));
  drop(side->agent, request);
  OK(nixl_capi_destroy_xfer_dlist(here));
  OK(nixl_capi_destroy_xfer_dlist(there));
}

static void write_and_read_back(struct side* side) {
  for (size_t i = 0; i < sizeof written; ++i) written[i] = (unsigned char)(i * 31 + i / 251);
  register_bytes(side, written, sizeof written);
  register_bytes(side, read_back, sizeof read_back);
  move(side, NIXL_CAPI_XFER_OP_WRITE, written);
  move(side, NIXL_CAPI_XFER_OP_READ, read_back);
  CHECK(memcmp(written, read_back, sizeof written) == 0);
}

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "drive DEVICE [refused]\n"), 2;
  const bool refused = argc > 2 && strcmp(argv[2], "refused") == 0;
  struct side side = open_side("host", "nvme");
  nixl_capi_reg_dlist_t drive = namespace_called(argv[1]);
  const nixl_capi_status_t given = nixl_capi_register_mem(side.agent, drive, side.args);
  CHECK_IS(given, refused ? NIXL_CAPI_ERROR_BACKEND : NIXL_CAPI_SUCCESS);
  if (given == NIXL_CAPI_SUCCESS) {
    write_and_read_back(&side);
    OK(nixl_capi_deregister_mem(side.agent, drive, side.args));
  }
  OK(nixl_capi_destroy_reg_dlist(drive));
  close_side(&side);
  return failed_checks != 0;
}
