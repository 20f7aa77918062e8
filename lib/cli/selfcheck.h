#pragma once
#include <span>

/// `kvc selfcheck`: rows go into a store of this build on this machine by every way in, and are compared token by token on every way out.
namespace kvc::cli {

/// What follows the word; returns the exit status.
int selfcheck_main(std::span<char *const> arguments);

}  // namespace kvc::cli
