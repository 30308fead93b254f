/** A copy of the version that the services tell, here because `sluice --version` must load nothing else. A test compares the two. */
export const VERSION = "0.1.0";
