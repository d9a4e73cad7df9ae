// matrix.hpp - the answers of the support matrix: for each kernel of a backend, what polyconv_explain says about every
// combination of feature, type group and direction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

enum class Answer {
  NoProblem, // the combination is not valid, for anybody
  No,
  Helped, // with a step of the plan beside the kernel: conversion or pooling
  Yes
};

// answers[kernel][feature][type group][direction]
struct Matrix {
  std::string backend;
  std::vector<std::string> kernels; // without the backend's name
  std::vector<std::vector<std::vector<std::vector<Answer>>>> answers;
};

// Throws std::runtime_error where polyconv fails or a feature is valid in no combination (a slip in features.cpp).
Matrix ask_backend(const std::string &backend, const std::string &device_kind);

// The backend's section of docs/support-matrix.md, from its heading on.
std::string section_of(const Matrix &matrix);
