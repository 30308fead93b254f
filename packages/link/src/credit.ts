/**
 * Credit of one direction, both ends. Counts are cumulative since the link began.
 *
 *   sender     sent ------ in flight ------ released (as the peer last said)      may send while in flight < window
 *   receiver   received --- held --- released --- told (what the peer knows)
 *
 * One frame may always go when nothing is in flight, so a frame larger than the window is slow, never stuck.
 */
export class SendCredit {
  readonly windowBytes: number;
  sent = 0;
  released = 0;
  constructor(windowBytes: number) {
    this.windowBytes = windowBytes;
  }
  get inFlight(): number {
    return this.sent - this.released;
  }
  get available(): boolean {
    return this.sent - this.released < this.windowBytes;
  }
  fits(frameBytes: number): boolean {
    const inFlight = this.sent - this.released;
    return inFlight === 0 || inFlight + frameBytes <= this.windowBytes;
  }
  /** Whether a frame may need more than what the peer gives back by itself (it keeps up to a quarter of the window). */
  mustAsk(frameBytes: number): boolean {
    return frameBytes > this.windowBytes - this.windowBytes / 4;
  }
  /** False when the peer released what was never sent. */
  onReleased(released: number): boolean {
    if (released > this.sent || released < this.released) return false;
    this.released = released;
    return true;
  }
}

export class ReceiveCredit {
  readonly windowBytes: number;
  received = 0;
  released = 0;
  /** What the last credit frame said. */
  told = 0;
  /** The peer waits for any credit. */
  wanted = false;
  constructor(windowBytes: number) {
    this.windowBytes = windowBytes;
  }
  /** False when the peer sent more than it was allowed to, whatever it knew. */
  onReceived(frameBytes: number): boolean {
    const idle = this.received === this.told;
    this.received += frameBytes;
    return idle || this.received - this.told <= this.windowBytes;
  }
  release(bytes: number): void {
    if (bytes < 0 || this.released + bytes > this.received) throw new RangeError(`released ${bytes} bytes that were not received`);
    this.released += bytes;
  }
  get due(): boolean {
    const untold = this.released - this.told;
    return untold > 0 && (this.wanted || untold >= this.windowBytes / 4);
  }
}
