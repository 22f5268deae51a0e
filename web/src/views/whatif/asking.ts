// Asks the twin about the watermark that is wanted last: after a pause, one call at a time, and what is not wanted any
// more is neither waited for nor shown.
import { type Signal, signal } from "@preact/signals";
import { Problem } from "../../service/client.ts";
import type { Prediction, Watermark, WhatIf } from "../../service/documents.ts";
import { sameWatermark } from "../../format.ts";

export interface Wanted {
  mark: Watermark;
  curves: boolean;
}
export type Ask = (wanted: Wanted, stop: AbortSignal) => Promise<WhatIf>;
export type Timer = (work: () => void, ms: number) => () => void;

const PAUSE_MS = 250;

export interface Answer {
  mark: Watermark;
  prediction: Prediction;
  incumbent: Prediction;
  said: WhatIf;
}

const later: Timer = (work, ms) => {
  const timer = setTimeout(work, ms);
  return () => clearTimeout(timer);
};

export class Asking {
  readonly answer: Signal<Answer | null> = signal(null);
  readonly problem: Signal<Problem | null> = signal(null);
  readonly busy = signal(false);
  private wanted: Wanted | null = null;
  private running: AbortController | null = null;
  private cancel: (() => void) | null = null;

  constructor(
    private readonly ask: Ask,
    private readonly wait: Timer = later,
  ) {}

  want(wanted: Wanted, at_once = false): void {
    this.wanted = wanted;
    this.problem.value = null;
    this.running?.abort();
    this.running = null;
    this.cancel?.();
    if (this.known(wanted)) {
      this.busy.value = false;
      return;
    }
    this.busy.value = true;
    this.cancel = this.wait(() => void this.run(wanted), at_once ? 0 : PAUSE_MS);
  }

  again(): void {
    const wanted = this.wanted;
    if (!wanted) return;
    this.answer.value = null;
    this.want(wanted, true);
  }

  stop(): void {
    this.problem.value = null;
    this.cancel?.();
    this.running?.abort();
    this.running = null;
    this.busy.value = false;
  }

  private known({ mark, curves }: Wanted): boolean {
    const answer = this.answer.value;
    return answer !== null && sameWatermark(answer.mark, mark) && (!curves || answer.said.trajectories !== null || answer.said.notes.length > 0);
  }

  private async run(wanted: Wanted): Promise<void> {
    const running = (this.running = new AbortController());
    try {
      const said = await this.ask(wanted, running.signal);
      if (this.running !== running) return;
      const [prediction, incumbent] = [said.results[0], said.incumbent];
      this.answer.value = prediction && incumbent ? { mark: wanted.mark, prediction, incumbent, said } : null;
    } catch (error) {
      if (this.running !== running) return;
      if (!(error instanceof Problem)) throw error;
      this.problem.value = error;
    }
    this.running = null;
    this.busy.value = false;
  }
}
