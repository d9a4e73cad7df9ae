// write_file.cpp - bytes to a file so that a reader finds the old ones or the new ones, whatever happens in between.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "checkpoint.hpp"
#include "failure.hpp"

namespace lenet {
namespace {

[[noreturn]] void refuse(const std::string &path, int error) {
  throw Failure(kExitFailed, path + ": cannot be written: " + std::strerror(error));
}

// Writes, syncs and closes; 0, or errno of what failed.
int put(int file, const std::string &bytes, bool regular) {
  size_t done = 0;
  int error = 0;
  while (error == 0 && done < bytes.size()) {
    const ssize_t wrote = write(file, bytes.data() + done, bytes.size() - done);
    if (wrote > 0) done += static_cast<size_t>(wrote);
    if (wrote < 0 && errno != EINTR) error = errno;
  }
  if (error == 0 && regular && fsync(file) != 0) error = errno;
  if (close(file) != 0 && error == 0) error = errno;
  return error;
}

// The new name in the folder must survive a crash too.
void sync_folder(const std::string &path) {
  const size_t slash = path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  fsync(file);
  close(file);
}

} // namespace

void write_file(const std::string &path, const std::string &bytes) {
  struct stat there {};
  const bool device = stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode);
  const std::string target = device ? path : path + ".tmp";
  const int file = open(target.c_str(), O_WRONLY | O_CREAT | (device ? 0 : O_TRUNC) | O_CLOEXEC, 0644);
  if (file < 0) refuse(path, errno);
  int error = put(file, bytes, !device);
  if (error == 0 && !device && rename(target.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    if (!device) unlink(target.c_str());
    refuse(path, error);
  }
  if (!device) sync_folder(path);
}

} // namespace lenet
