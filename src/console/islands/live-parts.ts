/**
 * Around a form that asks by GET and what it answers: while somebody types, the page is asked for again and each part
 * with `data-live` is exchanged for the one of the same id. Without script the form's button does that.
 */
const waitMs = 250

class LiveParts extends HTMLElement {
  connectedCallback(): void {
    const form = this.querySelector<HTMLFormElement>('form[data-asks]')
    if (!form) return
    let timer = 0
    let asked: XMLHttpRequest | null = null
    const exchange = (page: Document): void => {
      for (const old of this.querySelectorAll('[data-live]')) {
        const fresh = page.getElementById(old.id)
        // What somebody is in stays as it is.
        if (fresh && !old.contains(document.activeElement)) old.replaceWith(document.importNode(fresh, true))
      }
    }
    const ask = (): void => {
      asked?.abort()
      const request = new XMLHttpRequest()
      asked = request
      const query = new URLSearchParams([...new FormData(form)].map(([name, value]) => [name, String(value)]))
      request.open('GET', `${form.action}?${query}`)
      request.responseType = 'document'
      request.onload = () => {
        if (request.status === 200 && request.responseXML) exchange(request.responseXML)
        this.removeAttribute('aria-busy')
      }
      request.onerror = () => this.removeAttribute('aria-busy')
      this.setAttribute('aria-busy', 'true')
      request.send()
    }
    form.addEventListener('input', () => {
      clearTimeout(timer)
      timer = window.setTimeout(ask, waitMs)
    })
  }
}

customElements.define('live-parts', LiveParts)
