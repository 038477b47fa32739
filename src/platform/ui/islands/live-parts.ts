/**
 * Exchanges the parts of a page with `data-live` for those of the same id, from the page asked for again: around a form with
 * `data-asks`, while somebody types; around a part with `data-runs`, every two seconds for as long as it has that. Without
 * script the form's button and a link do that.
 */
const waitMs = 250
const everyMs = 2_000

class LiveParts extends HTMLElement {
  #timer = 0

  connectedCallback(): void {
    const form = this.querySelector<HTMLFormElement>('form[data-asks]')
    let asked: XMLHttpRequest | null = null
    /** Whether the page still has the parts: after the end of a session it is another one. */
    const exchange = (page: Document): boolean => {
      let found = false
      for (const old of this.querySelectorAll('[data-live]')) {
        const fresh = page.getElementById(old.id)
        if (!fresh) continue
        found = true
        // What somebody is in stays as it is.
        if (!old.contains(document.activeElement)) old.replaceWith(document.importNode(fresh, true))
      }
      return found
    }
    const ask = (url: string, then: (found: boolean) => void): void => {
      asked?.abort()
      const request = new XMLHttpRequest()
      asked = request
      request.open('GET', url)
      request.responseType = 'document'
      const ends = (found: boolean): void => {
        this.removeAttribute('aria-busy')
        then(found)
      }
      request.onload = () =>
        ends(request.status === 200 && request.responseXML !== null && exchange(request.responseXML))
      request.onerror = () => ends(false)
      this.setAttribute('aria-busy', 'true')
      request.send()
    }
    const after = (ms: number, work: () => void): void => {
      clearTimeout(this.#timer)
      this.#timer = window.setTimeout(work, ms)
    }
    form?.addEventListener('input', () =>
      after(waitMs, () => {
        const query = new URLSearchParams(
          [...new FormData(form)].map(([name, value]) => [name, String(value)]),
        )
        ask(`${form.action}?${query}`, () => undefined)
      }),
    )
    const follow = (): void => {
      if (this.querySelector('[data-runs]'))
        after(everyMs, () => ask(location.href, (found) => found && follow()))
    }
    follow()
  }

  disconnectedCallback(): void {
    clearTimeout(this.#timer)
  }
}

customElements.define('live-parts', LiveParts)
