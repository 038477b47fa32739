import {
  type Answers,
  count,
  flag,
  id,
  isoTime,
  link,
  list,
  object,
  picture,
  position,
  text,
} from './fields.ts'

export const telegram: Answers = {
  'channel-posts': {
    channel: object('The channel', {
      title: text('Title of the channel', 'Example News'),
      handle: text('Name of the channel', 'example_news'),
      description: text('What the channel is about', 'News about proxies'),
      avatar: picture('Picture of the channel'),
      subscriber_count: count('subscribers', 12_000),
    }),
    posts: list('Posts, the newest first', {
      id: id('the post', '524'),
      url: link('Link to the post', 'example_news/524'),
      text: text('Text of the post', 'A new version is out'),
      published_at: isoTime('When the post was published'),
      view_count: count('views', 3_400),
      reaction_count: count('reactions', 58),
    }),
    cursor: position('523'),
    has_more: flag('Whether there is another page', true),
  },
}
