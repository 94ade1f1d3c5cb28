// Writes what this release writes, a file for each door, and a small store: record_versions FOLDER
#include <filesystem>
#include <fstream>
#include <iostream>

#include <towpath/kv/blobs/blob_store.h>
#include <towpath/kv/disk/store_fixture.h>
#include <towpath/sys/file.h>

#include "doors.h"

int main(int argc, char** argv) {
  using namespace towpath;  // NOLINT: the words of this function
  if (argc != 2) {
    std::cerr << "usage: record_versions FOLDER\n";
    return 2;
  }
  const std::string folder = argv[1];
  if (!std::filesystem::create_directories(folder)) {
    std::cerr << folder << " is there: what a release wrote is not written again\n";
    return 1;
  }
  for (const versions::Door& door : versions::all_doors()) {
    const Bytes bytes = door.write();
    std::ofstream file(folder + "/" + door.name, std::ios::binary);
    if (!(file << as_text(bytes)).flush()) return 1;
  }
  sys::SystemFileSystem files;
  auto blobs = kv::BlobStore::open(files, folder + "/blobs");
  const bool saved =
      blobs.ok() && blobs->save({.name = "a", .context = "b"}, as_bytes("lock")).ok();
  const auto store = kv::BlockStore::open(
      files, {.directory = folder + "/store", .segment_bytes = 32768, .incarnation = 11});
  if (!saved || !store.ok()) return 1;
  for (const kv::BlockHash hash : {7, 14})
    if (!kv::testing::put_block(**store, hash).ok()) return 1;
  const bool whole = (*store)->sync().ok() && (*store)->checkpoint().ok();
  std::filesystem::remove(folder + "/store/lock");
  return whole ? 0 : 1;
}
