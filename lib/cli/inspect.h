#pragma once
#include <span>

/// `kvc info` and `kvc verify`: what this build is, what a save file holds, whether it is whole.
namespace kvc::cli {

/// What follows the word; returns the exit status.
int info_main(std::span<char *const> arguments);
int verify_main(std::span<char *const> arguments);

}  // namespace kvc::cli
