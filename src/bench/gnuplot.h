#pragma once

// Figures through gnuplot: one style for all of them, and a pipe to the program.

#include <string>

#include "base/status.h"

namespace vllm {

enum class FigureFormat { kPng, kSvg };

struct FigureSize {
  int width_px = 1200, height_px = 520;
};

// The beginning of every script: terminal, fonts, colours (line types 1 to 4), light grid, no clutter.
std::string figure_style(FigureFormat format, FigureSize size, const std::string& output_path);

// A string as gnuplot reads it, in single quotes.
std::string gnuplot_quoted(const std::string& text);

// Runs gnuplot on the script. kRefused when it is not installed; kFailed with its first words when it
// complained.
Status run_gnuplot(const std::string& script);

}  // namespace vllm
