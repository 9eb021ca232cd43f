"""Wu, Hu & Gu, Fast and scalable adversarial training of kernel SVM via doubly stochastic gradients (AAAI 2021)."""
