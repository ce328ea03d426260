package main

const sysRenameat2 = 316
