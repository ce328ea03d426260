/** What can be told of the state that a failed test leaves, in words; a test file's parts add to it. */
export const tellWhenATestFails = new Set<() => Promise<string>>();
