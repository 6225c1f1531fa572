namespace vllm {}
