import {
  type Answers,
  countText,
  type Field,
  flag,
  id,
  link,
  list,
  media,
  mixed,
  number,
  object,
  picture,
  pixels,
  text,
  texts,
  word,
} from './fields.ts'

/** The platform wraps many values. */
const wrapped = (value: Field) => object(value.meaning, { value })

const account = {
  username: text('Name of the account', 'example'),
  title: text('Name that is shown', 'Example Person'),
  badge: number('Number of the badge; 0 is none', 1),
  subscriberCount: countText('subscribers', '1535700'),
  bio: text('What the account writes about itself', 'Pictures of lakes'),
  profilePictureUrl: picture('Picture of the account'),
  hasStory: flag('Whether the account has a story now', false),
  hasCuratedHighlights: flag('Whether the account has highlights', true),
  hasSpotlightHighlights: flag('Whether the account has spotlight videos', true),
}

const story = {
  storyType: number('Number of the kind', 3),
  storyId: wrapped(id('the story')),
  storyTitle: wrapped(text('Title of the story', 'A day at the lake')),
  storyTapId: word('Number of the story in the list, from 0', '0'),
  highlightId: wrapped(id('the highlight', '00000000-0000-4000-8000-000000000001')),
  thumbnailUrl: wrapped(picture('Preview picture')),
  snapList: list('Parts of the story', {
    snapIndex: number('Place, from 0', 0),
    snapId: wrapped(id('the part')),
    snapMediaType: number('0 for a picture, 1 for a video', 1),
    snapUrls: object('The file', {
      mediaUrl: media('Link to the file'),
      mediaPreviewUrl: wrapped(picture('Preview picture')),
    }),
    timestampInSec: wrapped(word('When it was published', '1769860800', 'seconds since 1970')),
  }),
}

export const snapchat: Answers = {
  profile: {
    userProfile: object('The account', {
      ...account,
      businessProfileId: id('the public profile', '00000000-0000-4000-8000-000000000001'),
      snapcodeImageUrl: picture('Code that opens the account when scanned'),
      squareHeroImageUrl: picture('Large picture'),
      websiteUrl: link('Link to the website', ''),
      address: text('Address', '1 Example Street'),
      creationTimestampMs: wrapped(
        word('When the account was created', '1769860800000', 'milliseconds since 1970'),
      ),
      lastUpdateTimestampMs: wrapped(
        word('When the account was changed', '1769860800000', 'milliseconds since 1970'),
      ),
      relatedAccountsInfo: list('Similar accounts', { publicProfileInfo: object('The account', account) }),
    }),
    story: mixed('Story of the last day, or null', null),
    curatedHighlights: list('Highlights', story),
    spotlightHighlights: list('Spotlight videos', story),
    spotlightStoryMetadata: list('Details of the spotlight videos', {
      videoMetadata: object('The video', {
        name: text('Title', 'At the lake'),
        description: text('Text', 'A spotlight video'),
        thumbnailUrl: picture('Preview picture'),
        contentUrl: media('Link to the video'),
        uploadDateMs: word('When it was published', '1769860800000', 'milliseconds since 1970'),
        durationMs: word('Length', '6200', 'milliseconds'),
        width: pixels('Width', 540),
        height: pixels('Height', 960),
        viewCount: countText('views', '11937'),
        shareCount: countText('shares', '6'),
        keywords: texts('Words for the video', ['lake']),
        embeddedTextCaption: text('Text in the video', 'Cold water'),
        creator: object('Who made it', {
          $case: word('Kind of the creator', 'personCreator'),
          personCreator: object('The creator', {
            username: text('Name of the account', 'example'),
            name: text('Name that is shown', 'Example Person'),
            url: link('Link to the account', '@example'),
            followerCount: countText('followers', '0'),
          }),
        }),
      }),
      hashtags: texts('Hashtags', ['lake']),
      engagementStats: object('Figures', {
        viewCount: countText('views', '11937'),
        shareCount: countText('shares', '6'),
        commentCount: countText('comments', '10'),
      }),
    }),
  },
}
